"""Figure 2 and tables 1 and 2 of Antoine et al. (2014)."""
