"""Who removes a scheduling gate: controllers that hold pods back until a quota or a whole gang allows them."""

from __future__ import annotations

import msgspec


class GateKeeper(msgspec.Struct, frozen=True):
    """A controller that sets a gate and removes it again."""

    name: str
    look: str = ""  #: the command that shows what it waits for, but for the namespace


_KEEPERS = {
    "kueue.x-k8s.io": GateKeeper("Kueue", "kubectl get workloads.kueue.x-k8s.io"),
    "scheduling.volcano.sh": GateKeeper("Volcano", "kubectl get podgroups.scheduling.volcano.sh"),
    "volcano.sh": GateKeeper("Volcano", "kubectl get podgroups.scheduling.volcano.sh"),
    "yunikorn.apache.org": GateKeeper("YuniKorn"),
    "run.ai": GateKeeper("Run:ai"),
    "kai.scheduler": GateKeeper("the KAI scheduler", "kubectl get podgroups.scheduling.run.ai"),
    "codeflare.dev": GateKeeper("AppWrapper", "kubectl get appwrappers"),
    "grove.io": GateKeeper("Grove", "kubectl get podcliques"),
    "karmada.io": GateKeeper("Karmada"),
    "koordinator.sh": GateKeeper("Koordinator"),
}


def keeper_of_gate(gate: str) -> GateKeeper | None:
    """Return who removes a gate, by the domain before its slash; None for a gate of somebody unknown."""
    domain = gate.partition("/")[0]
    while domain:
        if domain in _KEEPERS:
            return _KEEPERS[domain]
        domain = domain.partition(".")[2]
    return None
