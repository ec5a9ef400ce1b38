"""Who users are: passwords, access tokens, and the one store of what the network keeps for them."""
