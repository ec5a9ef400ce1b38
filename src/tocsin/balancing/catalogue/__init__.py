"""The components of strategies by name, what each needs of the others, and strategies as compositions of names."""
