"""Networks whose brokers balance among themselves, with faults at every step of a session."""
