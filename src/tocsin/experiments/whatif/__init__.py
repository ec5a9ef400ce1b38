"""What if: how many brokers a population needs, and which strategy."""
