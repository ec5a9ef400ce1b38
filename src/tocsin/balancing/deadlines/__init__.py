"""Balancing among the heads and edges of the content overlay: components and strategies with deadlines."""
