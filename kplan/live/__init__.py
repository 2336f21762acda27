"""Live clusters, read-only: the only package that uses the network; it sends only GET requests to API servers.

:func:`kplan.live.collect.collect_snapshot` turns a cluster into a :class:`~kplan.snapshot.model.Snapshot`. The
`kubernetes` client is imported when it is called, not before. Here are the options for the access to a cluster, and the
namespaces to read.
"""

from __future__ import annotations

import re

import msgspec

from kplan.api.time import SECOND, parse_duration
from kplan.errors import UsageError

DEFAULT_PAGE_SIZE = 500  #: objects in one answer; kubectl's chunk size
DEFAULT_REQUEST_TIMEOUT = 60.0  #: seconds for one request; kubectl has no limit
_LONGEST = 1e8  #: three years: sockets do not accept much more


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of kubectl's flags that choose a cluster and a user."""

    #: one path, or several joined as in ``KUBECONFIG``; empty for ``~/.kube/config``, else the account of the pod that
    #: kplan runs in
    kubeconfig: str = ""
    #: context, cluster, user: names in the kubeconfig that replace its current context, and that context's cluster and
    #: user
    context: str = ""
    cluster: str = ""
    user: str = ""
    #: impersonate_user, impersonate_groups: user and groups to impersonate, which needs the right to do so
    impersonate_user: str = ""
    impersonate_groups: tuple[str, ...] = ()
    request_timeout: float | None = DEFAULT_REQUEST_TIMEOUT  #: seconds for one whole request; None for no limit
    insecure_skip_tls_verify: bool = False
    #: read namespaced kinds in these namespaces only, for users without rights on the whole cluster
    namespaces: tuple[str, ...] = ()
    page_size: int = DEFAULT_PAGE_SIZE  #: objects in one answer of a list
    stdin_is_free: bool = True  #: kplan itself does not read standard input, so that a plugin may


def parse_timeout(text: str) -> float | None:
    """Return a duration as in kubectl (``1m30s``, ``45``) in seconds; None for ``0``, no limit. Raises UsageError."""
    stripped = text.strip()
    duration = parse_duration(stripped)
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        seconds = float(stripped)
    elif duration is not None and duration >= 0:
        seconds = duration / SECOND
    else:
        hint = "write seconds or a number with a unit, for example 30s or 1m30s"
        raise UsageError(f"not a duration: {text!r}", hint=hint)
    return min(seconds, _LONGEST) or None
