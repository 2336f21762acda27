"""Why a pod fits nowhere, and what would help."""
