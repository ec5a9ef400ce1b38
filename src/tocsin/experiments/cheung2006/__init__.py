"""Cheung 2006: the tables and figures of the thesis on load balancing in content-based publish/subscribe."""
