"""Keeps pods spread over the domains of a topology key. Upstream: plugins/podtopologyspread."""
