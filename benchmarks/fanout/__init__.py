"""Fan-out: deliveries per CPU second of a server that sends the same message to many subscribers.

The server has one core, the counter (``counter.c``, which only counts) the other. The limit is ``limit.c``, which
writes ready frames and does nothing else. ``server.Server`` describes what a server must offer to take part.
"""
