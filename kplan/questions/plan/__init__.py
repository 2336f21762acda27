"""What happens to the whole queue."""
