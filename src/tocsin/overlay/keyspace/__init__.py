"""Structured overlays: peers share a key space, and every key has exactly one owner."""
