"""DynamicResources: allocates devices to resource claims, as kube-scheduler's structured allocator does."""
