"""Why a node or pool does not take a pod: as facts, and in Karpenter's sentences.

Upstream: provisioning/scheduling/nodeclaim.go InstanceTypeFilterError, scheduler.go, scheduling/requirement.go String,
scheduling/requirements.go badKeyError, provisioning/scheduling/topology.go topologyError.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias

import msgspec

from kplan.api.affinity import Taint
from kplan.api.labels import HOSTNAME
from kplan.autoscaling.karpenter.amounts import Amounts, texts_of
from kplan.autoscaling.karpenter.pods import PortConflict
from kplan.autoscaling.karpenter.requirements import Misfit, Requirement, Requirements, Vocabulary
from kplan.autoscaling.karpenter.topology import Unsatisfiable


class Untolerated(msgspec.Struct, frozen=True):
    """Taints that the pod does not tolerate."""

    taints: tuple[Taint, ...]


Asking: TypeAlias = Literal["requirements", "volume requirements", ""]  #: a topology constraint is not named


class Incompatible(msgspec.Struct, frozen=True):
    """Requirements that exclude each other."""

    misfits: tuple[Misfit, ...]
    of: Asking = "requirements"


class NoInstanceType(msgspec.Struct, frozen=True):
    """No instance type passes all three tests: the types that pass each of them, as sets."""

    meets: int
    fits: int
    is_offered: int
    lacking: dict[str, int]  #: labels with too few values, where only these are the reason
    requirements: Requirements
    requests: Amounts  #: of the least of daemons, and the pod
    most_requests: Amounts
    pod_requests: Amounts


class Plain(Enum):
    """Reasons without particulars."""

    NODE_LIMIT = "node limits have been exhausted for nodepool"
    LIMITS = "all available instance types exceed limits for nodepool"
    NO_TEMPLATE = "nodepool requirements filtered out all available instance types"
    CLAIMS = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
    NOT_RESERVABLE = (
        "one or more instance types with compatible reserved offerings are available, but could not be reserved"
    )
    LOSES_RESERVATION = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"
    NO_DEVICES = "allocating dynamic resources, no instance type can satisfy the allocation"
    DEVICES_ELSEWHERE = "allocating dynamic resources, claim is bound to a different in-flight NodeClaim"
    DEVICES_OUT_OF_REACH = (
        "allocating dynamic resources, allocation topology is incompatible with NodeClaim requirements"
    )
    UNSUITED_DEVICES = "no instance type satisfies both scheduling and dynamic resource requirements"
    MIN_VALUES = "pod didn’t schedule because NodePool couldn’t meet minValues requirements"  # noqa: RUF001 - upstream's


class Uninitialized(msgspec.Struct, frozen=True):
    """The pod's place would be on a node that is not ready yet."""

    claim: str
    node: str  #: empty for none


class ClaimMissing(msgspec.Struct, frozen=True):
    """A resource claim of the pod is not there."""

    claim: str  #: NAMESPACE/NAME


class ClaimUnusable(msgspec.Struct, frozen=True):
    """No device at all can meet a resource claim of the pod."""

    claim: str
    why: str


Refusal: TypeAlias = (
    Untolerated
    | PortConflict
    | Incompatible
    | Unsatisfiable
    | NoInstanceType
    | Plain
    | Uninitialized
    | ClaimMissing
    | ClaimUnusable
)


class PoolRefusal(msgspec.Struct, frozen=True):
    """Why a pool has no node for a pod."""

    pool: str
    refusal: Refusal

    @property
    def is_deferred(self) -> bool:
        """Whether it is about reserved capacity, which a later pass may have."""
        return self.refusal in (Plain.NOT_RESERVABLE, Plain.LOSES_RESERVATION)


_SHOWN_VALUES = 5
_SHOWN_DOMAINS = 25
_HUGE_CPU = 10**15
_NAMING_POOLS = frozenset({Plain.LIMITS, Plain.NODE_LIMIT, Plain.MIN_VALUES})


class Texts:
    """Writes facts as Karpenter writes them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._known = vocabulary

    def of_pools(self, refused: Sequence[PoolRefusal]) -> list[str]:
        """Return why pools have no node for a pod, sorted; reserved capacity that may come is marked as deferred."""
        lines = sorted(text for one in refused for text in self.of_pool(one))
        return ["(deferred)", *lines] if any(one.is_deferred for one in refused) else lines

    def of_pool(self, refused: PoolRefusal) -> tuple[str, ...]:
        """Return the sentences about a pool: one for each taint."""
        match refusal := refused.refusal:
            case Untolerated():
                return tuple(f"did not tolerate taint (taint={taint.text})" for taint in refusal.taints)
            case Plain():
                text = f"{refusal.value} (NodePool={refused.pool})" if refusal in _NAMING_POOLS else refusal.value
            case Incompatible():
                text = f"incompatible {refusal.of}, " if refusal.of else ""
                text += "; ".join(map(self._misfit, refusal.misfits))
            case Unsatisfiable():
                text = self._unsatisfiable(refusal)
            case NoInstanceType():
                text = self._no_type(refusal)
            case PortConflict():
                text = _port_conflict(refusal)
            case Uninitialized():
                names = [f"nodeclaim/{refusal.claim}"] if refusal.claim else []
                names += [f"node/{refusal.node}"] if refusal.node else []
                text = f"would schedule against uninitialized {', '.join(names)}"
            case ClaimMissing():
                text = f'resourceclaim "{refusal.claim}" not found'
            case ClaimUnusable():
                text = f'allocating dynamic resources, validating claim "{refusal.claim}": {refusal.why}'
        return (text,)

    def words_of(self, refused: PoolRefusal) -> tuple[str, ...]:
        """Return the same for people who do not know Karpenter's log."""
        match refusal := refused.refusal:
            case Untolerated():
                return tuple(
                    f"its nodes have the taint {taint.text}, which is not tolerated" for taint in refusal.taints
                )
            case Plain.NO_TEMPLATE:
                return ("no known instance type meets its requirements",)
            case Uninitialized():
                name = refusal.node or refusal.claim
                return (f"node {name} is on its way; its start-up taints and resources are waited for",)
            case NoInstanceType() if not refusal.lacking:
                least = ", ".join(f"{name} {amount}" for name, amount in texts_of(refusal.requests).items())
                more = [] if refusal.fits else [f"needed with daemons: {least}"]
                more += [] if refusal.meets else [f"required: {self.requirements(refusal.requirements)}"]
                return ("; ".join((_no_type_begin(refusal), *more)),)
        return self.of_pool(refused)

    def _misfit(self, misfit: Misfit) -> str:
        if misfit.existing is None:
            return f'label "{misfit.key}" does not have known values'
        return f"key {misfit.key}, {self.requirement(misfit.incoming)} not in {self.requirement(misfit.existing)}"

    def requirement(self, wanted: Requirement) -> str:
        text = f"{wanted.key} {wanted.operator}"
        if wanted.operator in {"In", "NotIn"}:
            values = self._known.texts(wanted.key, wanted.values)
            shown = values[:_SHOWN_VALUES]
            if len(values) > _SHOWN_VALUES:
                shown.append(f"and {len(values) - _SHOWN_VALUES} others")
            text += f" [{' '.join(shown)}]"
        text += "" if wanted.gte is None else f" >={wanted.gte}"
        text += "" if wanted.lte is None else f" <={wanted.lte}"
        return text if wanted.min_values is None else f"{text} minValues {wanted.min_values}"

    def requirements(self, wanted: Requirements) -> str:
        return ", ".join(sorted(map(self.requirement, wanted.items.values())))

    def _unsatisfiable(self, refusal: Unsatisfiable) -> str:
        shown = ", ".join(f"{domain}: {count}" for domain, count in refusal.counts[:_SHOWN_DOMAINS])
        if len(refusal.counts) > _SHOWN_DOMAINS:
            shown += f" and {len(refusal.counts) - _SHOWN_DOMAINS} other(s)"
        anything = f"{refusal.key} Exists"
        pod = anything if refusal.pod is None else self.requirement(refusal.pod)
        node = anything if refusal.node is None else self.requirement(refusal.node)
        if refusal.key == HOSTNAME:
            node = f"{HOSTNAME} In [{refusal.hostname}]"
        named = f"counts = {shown}, podDomains = {pod}, nodeDomains = {node}"
        return f"unsatisfiable topology constraint for {refusal.kind.value}, key={refusal.key} ({named}"

    def _no_type(self, refusal: NoInstanceType) -> str:
        least, most = (
            json.dumps(texts_of(own), separators=(",", ":")) for own in (refusal.requests, refusal.most_requests)
        )
        resources = least if least == most else f"min={least}, max={most}"
        particulars = f"requirements={self.requirements(refusal.requirements)}, resources={resources}"
        if refusal.lacking:
            labels = " ".join(sorted(refusal.lacking))
            return f"minValues requirement is not met for label(s) (label(s)=[{labels}]), {particulars}"
        text = f"{_no_type_begin(refusal)}, {particulars}"
        is_only_large = refusal.meets and refusal.is_offered and not refusal.fits
        is_huge = is_only_large and refusal.pod_requests.get("cpu", 0) >= _HUGE_CPU
        return f"{text} (CPU request >= 1 Million, m vs M typo?)" if is_huge else text


_TESTS = (
    ("meets", "met the scheduling requirements", "met all requirements"),
    ("fits", "had enough resources", "has enough resources"),
    ("is_offered", "had a required offering", "has the required offering"),
)
"""Each test with how it is told that no type passes it: beside others, and alone."""


def _no_type_begin(refusal: NoInstanceType) -> str:
    failed = [words for test, *words in _TESTS if not getattr(refusal, test)]
    if failed:
        return f"no instance type {' or '.join(beside for beside, _ in failed) if len(failed) > 1 else failed[0][1]}"
    begin = "no instance type which"
    if refusal.meets & refusal.fits:
        return f"{begin} met the scheduling requirements and had enough resources, had a required offering"
    if refusal.fits & refusal.is_offered:
        return f"{begin} had enough resources and the required offering met the scheduling requirements"
    if refusal.meets & refusal.is_offered:
        return f"{begin} met the scheduling requirements and the required offering had the required resources"
    return "no instance type met the requirements/resources/offering tuple"


def _port_conflict(clash: PortConflict) -> str:
    named = ", ".join(
        f"{whose}-hostport-{what}={value}"
        for whose, port in (("existing", clash.existing), ("pod", clash.wanted))
        for what, value in (("ip", port.address), ("port", port.port), ("protocol", port.protocol))
    )
    return f"checking host port usage, pod hostport conflicts with existing hostport configuration ({named})"
