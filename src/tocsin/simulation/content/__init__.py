"""Heads and edges on the simulated network: brokers and clients under a simulated clock, with faults."""
