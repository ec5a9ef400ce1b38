"""Users of a simulated network: what is true of them, their devices, and witnesses of what brokers send."""
