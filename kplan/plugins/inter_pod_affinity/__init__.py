"""Keeps pods near or away from other pods. Upstream: plugins/interpodaffinity."""
