"""Kubernetes objects as typed structs, with the fields that scheduling reads."""
