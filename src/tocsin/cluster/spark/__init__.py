"""Spark: the session, its Java, its errors, and what is cached between sessions."""
