"""The cluster of a snapshot, from which every question starts, and the pods and workloads that questions are about."""
