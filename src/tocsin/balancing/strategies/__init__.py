"""Strategies suggest migrations; one folder per paper."""
