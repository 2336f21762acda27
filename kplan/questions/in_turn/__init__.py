"""The same question about each node."""
