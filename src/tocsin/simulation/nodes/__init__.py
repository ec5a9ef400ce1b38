"""The simulated processes: brokers, clients, data cluster, coordinator."""
