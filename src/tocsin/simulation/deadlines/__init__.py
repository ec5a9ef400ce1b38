"""Topics with deadlines on heads and edges with bandwidths: output queues per topic, simulated as a fluid."""
