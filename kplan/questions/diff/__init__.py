"""What differs between two answers."""
