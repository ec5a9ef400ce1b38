"""One module for each group of figures that share a claim."""
