"""Live clusters, read-only: the only room that touches the network, and it can only send GET.

:func:`collect_snapshot` turns a cluster into a :class:`~kplan.snapshot.model.Snapshot`. The `kubernetes` client is
imported when it is called, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.live.options import LiveOptions, parse_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from kplan.live.collect import Progress, Warn
    from kplan.snapshot.model import Snapshot

__all__ = ["LiveOptions", "collect_snapshot", "parse_timeout"]


def collect_snapshot(
    options: LiveOptions,
    progress: Progress | None = None,
    warn: Warn | None = None,
    begin: Callable[[str], None] | None = None,
) -> Snapshot:
    """Read a live cluster; see :func:`kplan.live.collect.collect_snapshot`."""
    from kplan.live import collect

    return collect.collect_snapshot(options, progress, warn, begin)
