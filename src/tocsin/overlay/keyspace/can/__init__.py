"""CAN: a space of d dimensions, cut into zones, and routing from neighbour to neighbour."""
