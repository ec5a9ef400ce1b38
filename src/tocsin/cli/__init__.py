"""The command line: ``tocsin``."""
