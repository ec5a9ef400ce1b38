"""One link to a neighbour: sessions, sequence numbers, acknowledgements, and what waits to be sent."""
