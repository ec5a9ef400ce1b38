"""The load model: who is where with what, and copies of it for what-if questions."""
