"""Ingestion: feeds, the gateway for posts, and files."""
