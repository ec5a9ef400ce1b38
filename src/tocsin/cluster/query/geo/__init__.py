"""Distances on the earth: exact tests, joins on grid cells, and the k nearest rows."""
