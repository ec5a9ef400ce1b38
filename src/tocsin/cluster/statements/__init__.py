"""Statements: from the text of a script to one frozen struct per statement. Pure; needs no Spark."""
