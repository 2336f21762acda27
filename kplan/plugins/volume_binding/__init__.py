"""VolumeBinding: a pod needs nodes that reach its bound volumes, and where its other claims can be bound."""
