"""The items of a member: stored, copied, handed over and queried."""
