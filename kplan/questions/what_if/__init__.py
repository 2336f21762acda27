"""The same question about a changed cluster."""
