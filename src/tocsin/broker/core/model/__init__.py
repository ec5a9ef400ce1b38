"""What the parts of the broker share: sessions, BE subscriptions, recent results, rates and counters."""
