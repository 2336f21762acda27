"""The pods and workloads that a question is about."""
