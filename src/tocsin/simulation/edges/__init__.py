"""Edges that balance among themselves, in simulated time: the thesis' brokers with processor, memory and bandwidth."""
