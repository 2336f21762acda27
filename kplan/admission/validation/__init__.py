"""Validation of pods and workloads as in an API server, with upstream's messages in upstream's order."""
