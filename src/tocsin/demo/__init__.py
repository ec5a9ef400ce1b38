"""The demo: a city, its people and its emergencies, on the public interfaces of a local deployment."""
