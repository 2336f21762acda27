"""Live clusters, read-only: the only room that touches the network, and it can only send GET.

:func:`kplan.live.collect.collect_snapshot` turns a cluster into a :class:`~kplan.snapshot.model.Snapshot`. The
`kubernetes` client is imported when it is called, not before.
"""
