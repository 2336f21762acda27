"""The questions as tools of the Model Context Protocol, for agents: read-only, about one cluster, bounded in size."""
