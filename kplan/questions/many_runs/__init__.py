"""How often does each outcome occur."""
