"""The cluster of a snapshot, from which every question starts."""
