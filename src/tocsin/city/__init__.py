"""The demo's city: where people are, what happens there, and where they find shelter."""
