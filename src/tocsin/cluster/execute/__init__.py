"""Statements at work: definitions, changes of data, procedures and queries."""
