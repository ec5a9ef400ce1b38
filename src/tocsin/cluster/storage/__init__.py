"""Storage: the catalog, immutable segments, datasets, subscriptions, results, and the group commit."""
