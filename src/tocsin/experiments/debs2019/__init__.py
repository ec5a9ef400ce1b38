"""DEBS 2019, "Multistage Adaptive Load Balancing for Big Active Data Publish Subscribe Systems": figures 5 to 14."""
