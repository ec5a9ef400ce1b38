"""Overlays between machines without a central part."""
