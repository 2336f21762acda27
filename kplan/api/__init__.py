"""What kplan decides with: Kubernetes objects, typed."""
