"""PADRES workload files: brokers, publishers of stock quotes and subscribers, on the simulated network."""
