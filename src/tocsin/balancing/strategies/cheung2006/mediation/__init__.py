"""Sessions of two brokers or of two clusters: requests, replies, orders, and their ends."""
