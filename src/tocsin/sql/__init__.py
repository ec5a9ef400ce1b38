"""Spark SQL without Spark, shared by the data cluster and content conditions: dialect, places of errors, values."""
