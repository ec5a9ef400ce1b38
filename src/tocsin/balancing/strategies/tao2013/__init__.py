"""Delay-sensitive load management of Tao, Poslad and Bigham (2013), on heads and edges."""
