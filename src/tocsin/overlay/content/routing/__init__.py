"""Which announcements a broker has, what it forwards, and where a publication goes."""
