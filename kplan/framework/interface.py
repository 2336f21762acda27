"""Extension points: what a plugin may implement, and what it is created with.

A plugin is a class with a `name`, a `scope` and the methods of the extension points that it implements. It is
created once per profile and session as ``Plugin(args, handle)`` with the typed arguments of `kplan.config.args` (None
for a plugin without arguments) and a `Handle`. Upstream: kube-scheduler/framework/interface.go.

Rules that the runtime relies on:

- `Scope.NODE_OBJECT` and `Scope.NODE` plugins run once per pod *shape* (`PodInfo.shape`, equal for pods that differ
  in nothing that scheduling reads); their verdicts and raw scores are cached, and they run again only on rows whose
  pods changed since (never, for NODE_OBJECT).
  So for equal shapes their pre_filter, pre_score and the tuple of reasons must be equal, `Verdicts.unresolvable` must
  be set always or never, and row i's verdict and raw score must not depend on other rows. If such a plugin
  normalizes, equal raw scores must normalize to a value that does not depend on how many nodes there are.
- Verdicts over all nodes that reject none of them may have no reasons (`Verdicts.accepting`); others have all.
- Pods of different shapes may still be equal in what one plugin reads. The results of a plugin that declares what it
  reads of a pod (`KeyedPlugin`) are cached per what it reads instead of per shape. Of a plugin of `Scope.CLUSTER` that
  is whether it skips a pod (`SKIP_SHAPE`), and scores that are the same on all nodes (`ConstantScorePlugin`).
- Shapes are equal for pods whose claims and disks differ only by name, so a plugin that reads a pod's volumes is of
  `Scope.CLUSTER`.
- `Scope.CLUSTER` plugins run in every cycle. They keep what they derive up to date themselves
  (`Cluster.match_counts`, `Cluster.log`, `TermGroup`).
- Every `filter` must honour `nodes.delta` exactly as upstream's AddPod/RemovePod extensions and NodeInfo would:
  position i is the verdict on its own node with that node's pods changed and all other nodes unchanged.
- A plugin of cluster scope whose verdicts do not depend on which pods run on a node may declare that with a class
  attribute ``ignores_pods = True``; preemption then runs it once instead of at every step.
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
    ClaimBindingPlugin,
    ConstantScorePlugin,
    FilterPlugin,
    FinalScorePlugin,
    GroupPostFilterPlugin,
    GroupVictims,
    KeyedPlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservedObjects,
    ReservedObjectsPlugin,
    ReservePlugin,
    ScoreDetailPlugin,
    ScorePlugin,
    plugins_with,
)
from kplan.framework.handle import Handle, ProfileFilters
from kplan.framework.status import SUCCESS, Status, StatusCode

__all__ = [
    "SKIP",
    "SKIP_SHAPE",
    "SUCCESS",
    "ClaimBindingPlugin",
    "ConstantScorePlugin",
    "CycleState",
    "FilterPlugin",
    "FinalScorePlugin",
    "GroupPostFilterPlugin",
    "GroupVictims",
    "Handle",
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
    "ReservedObjects",
    "ReservedObjectsPlugin",
    "Scope",
    "ScoreDetailPlugin",
    "ScorePlugin",
    "Status",
    "StatusCode",
    "plugins_with",
]
