"""Questions about a cluster and their answers."""
