"""InterPodAffinity: affinity and anti-affinity between pods. Upstream: plugins/interpodaffinity."""
