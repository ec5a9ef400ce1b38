"""Channels: when they run, their subscriptions, their executions and results."""
