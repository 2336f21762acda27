"""When a controller tries a sync again that failed.

Upstream: DefaultControllerRateLimiter of client-go's workqueue.
"""

from __future__ import annotations

import msgspec

FIRST_RETRY = 0.005
"""Seconds between a sync that failed and the next try; doubled with each failure."""
LAST_RETRY = 1000.0
"""Seconds between two tries at most."""
MANY = 20
"""Failed syncs after which a controller waits longest for the next."""


class Failures(msgspec.Struct, frozen=True):
    """Failed syncs of a controller."""

    n: int  #: how many in a row
    last: float  #: when the last was
    run: int  #: in which run of the simulation the first was

    def next_retry(self, now: float) -> float:
        """Return when the controller tries again next."""
        at, delay = self.last, FIRST_RETRY * 2 ** min(self.n - 1, MANY)
        while at <= now:
            at += min(delay, LAST_RETRY)
            delay = min(delay * 2, LAST_RETRY)
        return at
