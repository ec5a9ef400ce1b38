"""The simulator: the state machines that production runs, under a simulated clock, network and data cluster."""
