"""Peal, our own strategy: close to the fewest migrations, and similar subscribers grouped."""
