"""Channels: their schedule, executions and subscriptions."""
