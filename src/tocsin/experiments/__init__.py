"""Reproductions of the papers' experiments: one folder per paper, one file per figure."""
