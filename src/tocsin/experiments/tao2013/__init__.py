"""Tao et al. 2013: figures 3 to 5, and our own strategy beside the paper's."""
