"""Thresholds at which each strategy does as much as it can."""

from __future__ import annotations

EAGER: dict[str, dict[str, float]] = {
    "ldm": {"alpha": 0.01},
    "sdm": {"alpha": 0.01},
    "gsh": {"gamma": 0.01},
    "multistage": {"alpha": 0.01, "gamma": 0.3},
    "join": {"share": 0.9},
    "peal": {"trigger": 0.0, "least": 0.0, "price": 0.0},
}
