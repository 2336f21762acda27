"""Extension points: what a plugin may implement, and what it is given.

A plugin is a class with a `name`, a `scope` and the methods of the extension points that it has, and no others. It is
made once per profile and session as ``Plugin(args, handle)`` with the typed arguments of `kplan.config.args` (None
for a plugin without arguments) and a `Handle`. Upstream: kube-scheduler/framework/interface.go.

Rules that the runtime relies on:

- `Scope.NODE_OBJECT` and `Scope.NODE` plugins are asked once per pod *shape* (pods that say the same,
  `PodInfo.shape`); their verdicts and raw scores are kept, and only rows whose pods changed since are asked again
  (never, for NODE_OBJECT).
  So for equal shapes their pre_filter, pre_score and the tuple of reasons must be equal, `Verdicts.unresolvable` must
  be given always or never, and row i's verdict and raw score must not depend on other rows. If such a plugin
  normalizes, equal raw scores must normalize to a value that does not depend on how many nodes there are.
- Pods of different shapes may still say the same to one plugin. A plugin that says what it reads of a pod
  (`KeyedPlugin`) has whatever is kept per shape kept for all pods of which it reads the same.
- A shape does not tell one claim or disk from another, so a plugin that reads a pod's volumes is of `Scope.CLUSTER`.
- `Scope.CLUSTER` plugins are asked in every cycle. They keep what they derive up to date themselves
  (`Cluster.match_counts`, `Cluster.log`, `TermGroup`).
- Every `filter` must honour `nodes.delta` exactly as upstream's AddPod/RemovePod extensions and NodeInfo would:
  position i answers for its own node with its own pods changed, all other nodes unchanged.
- A plugin of cluster scope whose verdicts do not depend on which pods run on a node may say so, with a class attribute
  ``ignores_pods = True``; preemption then asks it once instead of at every step.
- `pre_score` and `score` see a view of the feasible nodes only (CLUSTER) or of any nodes (others), never with a delta.
- Nothing but `reserve` and `unreserve` may change what later cycles see.
"""

from __future__ import annotations

from kplan.framework.cycle_state import (
    SKIP,
    SKIP_SHAPE,
    CycleState,
    PostFilterFindings,
    PostFilterResult,
    PreFilterResult,
    PreScoreResult,
    Scope,
)
from kplan.framework.extension_points import (
    ConstantScorePlugin,
    FilterPlugin,
    KeepingPlugin,
    Kept,
    KeyedPlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScoreDetailPlugin,
    ScorePlugin,
)
from kplan.framework.handle import Handle, ProfileFilters
from kplan.framework.status import SUCCESS, Status, StatusCode

__all__ = [
    "SKIP",
    "SKIP_SHAPE",
    "SUCCESS",
    "ConstantScorePlugin",
    "CycleState",
    "FilterPlugin",
    "Handle",
    "KeepingPlugin",
    "Kept",
    "KeyedPlugin",
    "NormalizeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PostFilterFindings",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreScoreResult",
    "ProfileFilters",
    "QueueSortPlugin",
    "ReservePlugin",
    "Scope",
    "ScoreDetailPlugin",
    "ScorePlugin",
    "Status",
    "StatusCode",
]
