"""Balancing among brokers without a coordinator: what a broker measures, moves and runs."""
