"""Key spaces on the simulated network: peers under a simulated clock, with faults, and what must be true afterwards."""
