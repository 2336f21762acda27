"""What may be done to a cluster, as values: options, steps of a timeline, actions of remedies and steps of runbooks."""
