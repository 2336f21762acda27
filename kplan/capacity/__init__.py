"""How many replicas fit, and which nodes to add."""
