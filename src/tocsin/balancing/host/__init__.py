"""The generic load balancing API of Antoine et al.: strategies are made of components, and a host runs them."""
