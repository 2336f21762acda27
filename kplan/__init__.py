"""kplan: `terraform plan` for the Kubernetes scheduler.

>>> import kplan
>>> planner = kplan.Planner(kplan.load_snapshot("demo"))
>>> planner.place("shop/voucher-api").node
'general-a-2'

Names are looked up when first used, so that ``import kplan`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from kplan.version import __version__

# As in typing, which is not loaded here: a signal in the first milliseconds would show a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kplan import questions
    from kplan.autoscaling.settings import ClusterAutoscaler, Karpenter
    from kplan.changes.values import DrainOptions
    from kplan.config import load_scheduler_config
    from kplan.course.answers.placement import Placement
    from kplan.course.answers.plan import Plan
    from kplan.errors import (
        ApiError,
        ConfigError,
        ForbiddenError,
        InputError,
        KplanError,
        KubeconfigError,
        LiveClusterError,
        ManifestError,
        NotFoundError,
        ParameterError,
        Problem,
        SnapshotError,
        UnauthorizedError,
        UnreachableError,
        UsageError,
    )
    from kplan.planner.planner import Planner
    from kplan.snapshot import Snapshot, load_snapshot
    from kplan.sweeps import sweep

__all__ = [
    "ApiError",
    "ClusterAutoscaler",
    "ConfigError",
    "DrainOptions",
    "ForbiddenError",
    "InputError",
    "Karpenter",
    "KplanError",
    "KubeconfigError",
    "LiveClusterError",
    "ManifestError",
    "NotFoundError",
    "ParameterError",
    "Placement",
    "Plan",
    "Planner",
    "Problem",
    "Snapshot",
    "SnapshotError",
    "UnauthorizedError",
    "UnreachableError",
    "UsageError",
    "__version__",
    "load_scheduler_config",
    "load_snapshot",
    "questions",
    "sweep",
]


_HOMES = {
    "load_scheduler_config": "kplan.config",
    "load_snapshot": "kplan.snapshot",
    "DrainOptions": "kplan.changes.values",
    "Snapshot": "kplan.snapshot",
    "ClusterAutoscaler": "kplan.autoscaling.settings",
    "Karpenter": "kplan.autoscaling.settings",
    "Planner": "kplan.planner.planner",
    "Plan": "kplan.course.answers.plan",
    "Placement": "kplan.course.answers.placement",
    "sweep": "kplan.sweeps",
    "questions": "kplan.questions",
}
_ERRORS = "kplan.errors"  #: home of all other public names


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = import_module(_HOMES.get(name, _ERRORS))
        value = home if name == "questions" else getattr(home, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
