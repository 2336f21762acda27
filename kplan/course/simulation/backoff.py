"""How long is waited until something that has failed is tried again."""

from __future__ import annotations

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Seconds to wait: at first, doubled with each further failure in a row, and at most."""

    first: float
    longest: float

    def after(self, n_failures: int) -> float:
        """Return how many seconds to wait after so many failures; 0 without any."""
        return min(self.first * 2.0 ** min(n_failures - 1, MANY), self.longest) if n_failures > 0 else 0.0


MANY = 20  #: failures in a row after which whoever tries again waits longest

OF_PODS = Backoff(1.0, 10.0)
"""Until the scheduler tries a pod again. Upstream: DefaultPodInitialBackoffDuration, DefaultPodMaxBackoffDuration."""

OF_JOBS = Backoff(10.0, 600.0)
"""Until a job has another pod in place of one that has failed. Upstream: DefaultJobPodFailureBackOff."""

OF_SYNCS = Backoff(0.005, 1000.0)
OF_SYNCS_OF_JOBS = Backoff(1.0, 60.0)
"""Until a controller tries again to sync what it has failed to. Upstream: DefaultTypedControllerRateLimiter."""


class FailedSyncs(msgspec.Struct, frozen=True):
    """Failed syncs of a controller. Upstream: ItemExponentialFailureRateLimiter of client-go's workqueue."""

    n: int  #: how many in a row
    last: float  #: when the last was
    backoff: Backoff = OF_SYNCS

    @property
    def following(self) -> float:
        """When the controller tries again."""
        return self.last + self.backoff.after(self.n)

    def until(self, now: float) -> FailedSyncs:
        """Return these with all tries until now, each of which has failed."""
        failed = self
        while failed.following <= now:
            failed = FailedSyncs(failed.n + 1, failed.following, failed.backoff)
        return failed

    def and_now(self, now: float) -> FailedSyncs:
        """Return these with a try that fails now."""
        failed = self.until(now)
        return failed if failed.last == now else FailedSyncs(failed.n + 1, now, failed.backoff)
