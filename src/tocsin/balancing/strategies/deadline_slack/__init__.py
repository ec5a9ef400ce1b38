"""Ours: act before the first deadline is missed, where queues are served by the earliest deadline first."""
