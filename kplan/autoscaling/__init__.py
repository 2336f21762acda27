"""Autoscalers: programs that add nodes for pods that fit on none, and remove nodes that are not needed.

`seam` is what they share: an autoscaler looks at a prepared cluster and says which nodes come, go and stay. Each has a
package of its own, which knows nothing of the other; `settings` says which one a planner follows, and how it is set up.
"""
