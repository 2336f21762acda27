"""A cluster at one instant: read from files or objects, checked, completed, written."""
