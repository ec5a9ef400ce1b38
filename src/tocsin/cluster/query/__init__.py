"""Queries: from the SQL that a user wrote to the SQL that Spark runs for all subscriptions at once. Pure."""
