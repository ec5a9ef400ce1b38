"""Which subscribers a broker gives away: the input, match and output offload algorithms."""
