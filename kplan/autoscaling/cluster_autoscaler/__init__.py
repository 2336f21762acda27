"""The cluster-autoscaler: node groups of a fixed template that grow and shrink."""
