"""The broker as a part of an overlay: its links with other brokers, and live feeds."""
