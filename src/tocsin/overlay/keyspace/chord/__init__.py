"""Chord: a ring of hashed keys, fingers at powers of two, and virtual servers."""
