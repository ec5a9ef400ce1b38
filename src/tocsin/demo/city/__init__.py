"""A city made from a seed: streets, people who move along them, emergencies, shelters. The same seed, the same city."""

from __future__ import annotations

from tocsin.demo.city.city import City

__all__ = ["City"]
