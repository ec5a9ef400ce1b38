"""Hosts on the peers of a key space: what their load is, what a strategy's actions do, and the strategies."""
