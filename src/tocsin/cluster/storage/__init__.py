"""Storage: the catalog, immutable segments, datasets, and the one thread that commits."""
