"""When a broker or a cluster balances, and what it publishes about its load."""
