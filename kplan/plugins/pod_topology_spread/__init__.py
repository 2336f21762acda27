"""PodTopologySpread: spreads pods over the domains of a topology key. Upstream: plugins/podtopologyspread."""
