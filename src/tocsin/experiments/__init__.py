"""The papers' experiments again: one folder a paper, one file a figure."""
