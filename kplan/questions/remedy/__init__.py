"""What lets all pending pods run."""
