"""Balancing among brokers, in the broker's state machine. Without ``balancing.mode = "peers"`` none of it runs."""
