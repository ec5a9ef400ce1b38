"""The simulated network: clock, connections, delays, losses and partitions."""
