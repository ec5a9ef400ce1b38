"""Records: types, validation, decoding of posted bodies and encoding of results. Pure."""
