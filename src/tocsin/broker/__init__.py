"""The broker: holds subscribers' connections, merges their subscriptions, fetches results once, delivers to many."""
