"""Mercury: one ring, called hub, for each attribute; values are not hashed, so that ranges can be queried."""
