"""Notification of brokers about executions: the outbox, the in-flight window, the retry policy."""
