"""How many replicas fit."""
