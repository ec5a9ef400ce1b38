"""Tocsin: Big Active Data publish/subscribe on Spark."""

__version__ = "0.1.0"
