"""Live clusters, read-only: the only package that uses the network; it sends only GET requests to API servers.

:func:`kplan.live.collect.collect_snapshot` turns a cluster into a :class:`~kplan.snapshot.model.Snapshot`. The
`kubernetes` client is imported when it is called, not before.
"""
