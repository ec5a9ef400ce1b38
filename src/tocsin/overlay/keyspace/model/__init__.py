"""What a key space is made of: keys, regions, their order, items, load."""
