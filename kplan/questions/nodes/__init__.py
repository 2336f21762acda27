"""Which nodes does the autoscaler add and remove."""
