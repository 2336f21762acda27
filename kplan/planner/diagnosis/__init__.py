"""Why a pod has no node, and the least changes that would help."""
