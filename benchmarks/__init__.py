"""Benchmarks: one file a question, each prints a table. ``python -m benchmarks`` runs them all."""
