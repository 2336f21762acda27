"""What nodes, pods and workloads are at this moment, as values that are read from a snapshot.

Nothing here decides or simulates; `kplan.health.words` has the sentences.
"""
