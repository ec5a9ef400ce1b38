"""From the broker to the data cluster and the coordinator: pure protocols and their HTTP clients."""
