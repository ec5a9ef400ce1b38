"""What if: how many brokers does this population need, and which way of balancing."""
