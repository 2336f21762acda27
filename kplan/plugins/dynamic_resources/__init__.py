"""DynamicResources: devices for claims, as kube-scheduler's structured allocator hands them out."""
