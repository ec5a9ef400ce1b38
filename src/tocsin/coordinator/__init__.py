"""The coordinator (the papers' BCS): knows all brokers, places newcomers, watches load, decides who moves."""
