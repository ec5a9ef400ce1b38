"""Ingestion: feeds, the push gateway and files."""
