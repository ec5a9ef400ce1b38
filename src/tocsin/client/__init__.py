"""The Python client: subscribe to channels and publish to feeds through a broker."""
