"""The coordinator's logic as a pure state machine: no sockets, no clock, no randomness."""
