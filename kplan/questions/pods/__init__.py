"""What would the API server store."""
