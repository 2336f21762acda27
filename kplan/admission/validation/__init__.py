"""What an API server finds invalid in pods and workloads: one module for each area, upstream's words and order."""
