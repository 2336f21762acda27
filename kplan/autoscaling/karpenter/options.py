"""The settings of Karpenter.

Upstream: operator/options/options.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from kplan.api.names import choice_hint
from kplan.errors import UsageError

GATES = {
    "NodeRepair": False,
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeOverlay": False,
    "StaticCapacity": False,
    "CapacityBuffer": False,
}
"""Karpenter's feature gates, and whether they are on by default."""


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The settings of Karpenter that decide.

    Attributes
    ----------
    preference_policy : whether preferences are tried first, or ignored
    min_values_policy : whether minValues are kept, or lowered where they cannot be
    ignore_dra_requests : leave pods with resource claims alone
    feature_gates : gates that are not as by default
    marked_for_deletion, nominated : nodes that Karpenter, in its memory, is removing, or keeps for pending pods
    derive_conditions : look for what is consolidatable or drifted at this moment; otherwise take the conditions as they
        are
    static : run the controllers of pools with replicas, too
    supported_node_classes : GROUP/KIND of the node classes of the running provider; empty: as the cluster tells
    """

    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    ignore_dra_requests: bool = msgspec.field(default=True, name="ignoreDRARequests")
    feature_gates: dict[str, bool] = {}
    marked_for_deletion: tuple[str, ...] = ()
    nominated: tuple[str, ...] = ()
    derive_conditions: bool = True
    static: bool = False
    supported_node_classes: tuple[str, ...] = ()

    def is_on(self, gate: str) -> bool:
        return self.feature_gates.get(gate, GATES[gate])


def read_options(options: Mapping[str, Any]) -> Options:
    """Return settings from their names and values.

    Raises UsageError for a setting or gate that Karpenter does not have, or a value that it does not take.
    """
    known = Options.__struct_encode_fields__
    for name in options:
        if name not in known:
            raise UsageError(f"karpenter has no option {name!r}", hint=choice_hint(name, known))
    try:
        settings = msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"karpenter: {error}", hint=f"options are {', '.join(known)}") from None
    for gate in settings.feature_gates:
        if gate not in GATES:
            raise UsageError(f"karpenter has no feature gate {gate!r}", hint=choice_hint(gate, GATES))
    return settings
