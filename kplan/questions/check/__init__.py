"""Do the promises hold."""
