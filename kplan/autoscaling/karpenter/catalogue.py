"""Catalogues of instance types: read from files or objects, checked, and written; or learned from a cluster.

The format is that of Karpenter's kwok provider; `zone` and `capacityType` of an offering may stand for its
requirements.

What nodes and claims of a cluster do not show is guessed in the open: a type can be had in every zone of the cluster,
in the capacity types in which it runs. Prices are unknown; the size of a machine takes the place of its price, so that
the smallest one that is enough is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.core import NodeStatus
from kplan.api.labels import ARCH, INSTANCE_TYPE, NODEPOOL, OS, ZONE
from kplan.api.names import choice_hint, label_key_problems, label_value_problems
from kplan.api.provisioning import NodeClaimStatus
from kplan.api.quantity import nanos_of
from kplan.autoscaling.karpenter.amounts import Amounts
from kplan.autoscaling.karpenter.instance_types import InstanceType, Offering, Overhead
from kplan.autoscaling.karpenter.requirements import CAPACITY_TYPE, ON_DEMAND
from kplan.errors import InputError, Problem
from kplan.reading.documents import EntryReader, read_contents
from kplan.reading.files import Limits
from kplan.rules.resources import CPU, MEMORY, nano_text
from kplan.snapshot.build import QuantityCheck
from kplan.snapshot.model import Snapshot

MOST_TYPES = 5_000
MOST_OFFERINGS = 500
_MOST_PRICE = 10**9
_EXPECTED = "a list of instance types, as docs/karpenter-settings.md shows it"
_LIMITS = Limits(max_bytes=256 << 20, max_stream_bytes=128 << 20, max_documents=10, max_depth=50)
_OFFERING_FIELDS = {name.lower(): name for name in Offering.__struct_encode_fields__ if name != "IsPriceOverlaid"}
_OVERHEAD_FIELDS = {name.lower(): name for name in Overhead.__struct_encode_fields__}
_SHORT_FIELDS = {"zone": ZONE, "capacitytype": CAPACITY_TYPE}


def read_catalogue(source: str | Path | Sequence[Mapping[str, Any]]) -> list[InstanceType]:
    """Read a catalogue from a file, ``-`` for standard input, or a list.

    Raises InputError with all problems, each with its place.
    """
    problems: list[Problem] = []
    entries: list[InstanceType] = []
    if not isinstance(source, str | Path):
        problems += _read(list(source), entries)
    else:
        contents = read_contents(source, problems, limits=_LIMITS, expected=_EXPECTED, is_single=True)
        for document, content in contents:
            problems += map(document.locate, _read(content, entries))
    if problems:
        raise InputError(problems)
    return entries


def _read(content: Any, entries: list[InstanceType]) -> Iterator[Problem]:
    if not isinstance(content, list):
        yield Problem("no list of instance types", json_path="$", hint=f"expected {_EXPECTED}")
        return
    if len(content) > MOST_TYPES:
        message = f"{len(content)} instance types, and at most {MOST_TYPES} are read"
        yield Problem(message, json_path="$", hint="leave out those that your node pools exclude")
        return
    classes_of: dict[str, set[str]] = {}  # instance type -> its node classes, empty for all
    for index, value in enumerate(content):
        path = f"$[{index}]"
        if not isinstance(value, dict):
            yield Problem("no instance type", json_path=path, hint="for example {name: m7i.large, …}")
            continue
        reader, own, offerings = EntryReader(path), dict(value), value.get("offerings")
        if isinstance(offerings, list):
            own["offerings"] = [_offering(offering, number, reader) for number, offering in enumerate(offerings)]
        entry = reader.converted(own, InstanceType)
        if entry is not None:
            _check(entry, reader)
            classes = set(entry.node_classes or ("",))
            others = classes_of.setdefault(entry.name, set())
            is_second = classes & others or (others and ("" in others or not entry.node_classes))
            if entry.name and is_second:
                hint = "leave one out, or name different nodeClasses"
                reader.wrong("name", f"a second instance type is called {entry.name}", hint)
            others |= classes
            entries.append(entry)
        yield from reader.problems


def _offering(value: Any, index: int, reader: EntryReader) -> Any:
    """Return an offering with the names of its fields as kwok writes them; as Go, it reads them in any case."""
    if not isinstance(value, dict):
        return value
    offering: dict[str, Any] = {}
    short: list[dict[str, Any]] = []
    known = ("Price", "Available", "Requirements", "zone", "capacityType")
    for key, content in value.items():
        folded = str(key).lower()
        if folded in _OFFERING_FIELDS:
            offering[_OFFERING_FIELDS[folded]] = content
            if folded == "overheadoverride" and isinstance(content, dict):
                named = {_OVERHEAD_FIELDS.get(str(field).lower(), field): amounts for field, amounts in content.items()}
                offering["OverheadOverride"] = named
        elif folded in _SHORT_FIELDS:
            short.append({"key": _SHORT_FIELDS[folded], "operator": "In", "values": [content]})
        else:
            hint = choice_hint(str(key), known)
            reader.wrong(f"offerings[{index}].{str(key)[:80]}", f"unknown field {str(key)!r}", hint)
    requirements = offering.get("Requirements")
    if short and (requirements is None or isinstance(requirements, list)):
        offering["Requirements"] = [*(requirements or ()), *short]
    return offering


def _check(entry: InstanceType, reader: EntryReader) -> None:
    if not entry.name or label_value_problems(entry.name):
        message = f"{entry.name!r} is no name" if entry.name else "an instance type needs a name"
        reader.wrong("name", message, "it becomes a label of nodes, such as m7i.large")
    for name in (CPU, MEMORY):
        if name not in entry.resources:
            reader.wrong("resources", f"no {name}", "for example {cpu: 2, memory: 8Gi}")
    reader.problems += [problem.below(reader.path) for problem in QuantityCheck(refuses_odd=True).problems(entry)]
    for key, value in entry.labels.items():
        for problem in (*label_key_problems(key), *label_value_problems(value)):
            reader.wrong("labels", f"label {key!r}: {problem}", "as labels of nodes are")
    if len(entry.offerings) > MOST_OFFERINGS:
        message = f"{len(entry.offerings)} offerings, and at most {MOST_OFFERINGS} are read"
        reader.wrong("offerings", message, "leave out zones that you do not use")
        return
    for index, offering in enumerate(entry.offerings):
        _check_offering(offering, f"offerings[{index}]", reader)


def _check_offering(offering: Offering, field: str, reader: EntryReader) -> None:
    if _MOST_PRICE < offering.price < math.inf:
        reader.wrong(f"{field}.Price", f"the price {offering.price} is out of range", "for example 0.0832")
    if offering.reservation_capacity < 0:
        reader.wrong(f"{field}.ReservationCapacity", "a negative number of machines", "0 or more")
    keys = [wanted.key for wanted in offering.requirements]
    for key, name in ((ZONE, "zone"), (CAPACITY_TYPE, "capacityType")):
        if keys.count(key) > 1:
            reader.wrong(field, f"an offering has one requirement on {key} at most", f"give one {name}")
    for index, wanted in enumerate(offering.requirements):
        inner = f"{field}.Requirements[{index}]"
        is_absent = wanted.operator == "DoesNotExist" and not wanted.values and wanted.key not in (ZONE, CAPACITY_TYPE)
        if not is_absent and (wanted.operator != "In" or len(wanted.values) != 1):
            reader.wrong(inner, f"{wanted.key}: not a single value", "{operator: In, values: [VALUE]}")
        for problem in (*label_key_problems(wanted.key), *(p for v in wanted.values for p in label_value_problems(v))):
            reader.wrong(inner, f"{wanted.key!r}: {problem}", "as labels of nodes are")


def offering_entry(zone: str, capacity_type: str, price: float) -> Offering:
    labels = {CAPACITY_TYPE: capacity_type, ZONE: zone}
    wanted = (NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in labels.items())
    return Offering(requirements=tuple(wanted), price=price)


def plain_entries(entries: Sequence[InstanceType]) -> list[dict[str, Any]]:
    """Return a catalogue as plain data, to be written."""
    plain: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(entries))
    for entry in plain:
        for offering in entry.get("offerings", ()):
            offering.setdefault("Price", 0.0)
            offering.setdefault("Available", True)
    return plain


_DESCRIBING = ("karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-", "node.kubernetes.io/windows-build")
"""Labels that begin so describe the machine."""

_GIB = 2**30 * 10**9
_CORES_PER_GIB = 8  #: in the clouds about so many GiB of memory cost as much as a core


class _Machine(msgspec.Struct, frozen=True):
    """A machine as a node or claim shows it."""

    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts


def learned_catalogue(snapshot: Snapshot) -> list[InstanceType]:
    """Return the types of the machines of Karpenter's claims, and of nodes of its pools."""
    nodes = {node.spec.provider_id: node for node in snapshot.nodes if node.spec.provider_id}
    shown: list[tuple[Mapping[str, str], NodeStatus | NodeClaimStatus]] = []
    for claim in snapshot.node_claims:
        node = nodes.pop(claim.status.provider_id, None)
        labels = {**claim.metadata.labels, **({} if node is None else node.metadata.labels)}
        shown.append((labels, claim.status if node is None or not node.status.capacity else node.status))
    shown += [(node.metadata.labels, node.status) for node in nodes.values() if NODEPOOL in node.metadata.labels]
    machines: dict[str, list[_Machine]] = {}
    for own, status in shown:
        if (name := own.get(INSTANCE_TYPE)) and status.capacity:
            machine = _Machine(own, nanos_of(status.capacity), nanos_of(status.allocatable))
            machines.setdefault(name, []).append(machine)
    zones = sorted({zone for held in machines.values() for one in held if (zone := one.labels.get(ZONE))})
    return [_learned(name, machines[name], zones) for name in sorted(machines)]


def _learned(name: str, machines: list[_Machine], zones: list[str]) -> InstanceType:
    model = machines[0]
    # Kernel and firmware take a little more on one machine than on another: the least is safe.
    capacity = {key: min(one.capacity.get(key, 0) for one in machines) for key in model.capacity}
    allocatable = {key: min(one.allocatable.get(key, 0) for one in machines) for key in model.allocatable}
    overhead = {key: max(0, capacity[key] - allocatable.get(key, capacity[key])) for key in capacity}
    size = capacity.get(CPU, 0) / 10**9 + capacity.get(MEMORY, 0) / _GIB / _CORES_PER_GIB
    capacity_types = sorted({one.labels.get(CAPACITY_TYPE, ON_DEMAND) for one in machines})
    return InstanceType(
        name=name,
        architecture=model.labels.get(ARCH, "amd64"),
        operating_systems=tuple(sorted({one.labels.get(OS, "linux") for one in machines})),
        resources={name: nano_text(name, amount) for name, amount in capacity.items()},
        offerings=tuple(offering_entry(*place, round(size, 3)) for place in product(zones or [""], capacity_types)),
        overhead=Overhead(kube_reserved={name: nano_text(name, amount) for name, amount in overhead.items() if amount}),
        labels={
            key: value
            for key, value in sorted(model.labels.items())
            if key.startswith(_DESCRIBING) and all(one.labels.get(key) == value for one in machines)
        },
    )
