"""Cheung 2006: brokers of content subscriptions that balance input, matching and output among themselves."""
