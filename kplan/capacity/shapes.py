"""The list of shapes of nodes with prices that ``--shapes`` names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import EFFECTS, Taint
from kplan.api.core import Node, NodeSpec
from kplan.api.labels import HOSTNAME
from kplan.api.meta import KubeStruct, QuantityLike
from kplan.api.names import dns_subdomain_problems, label_key_problems, label_value_problems
from kplan.api.quantity import InvalidQuantity, parse
from kplan.cluster.workload_pods import did_you_mean
from kplan.diagnosis.intended import states_condition
from kplan.errors import InputError, Problem
from kplan.reading.documents import EntryReader, read_contents
from kplan.rules.resources import CPU, MEMORY, PODS

MAX_LISTED = 50  #: a list may hold this many shapes

_EXPECTED = "a list of node shapes with prices, as docs/buy.md shows it"
_MOST = Decimal(10) ** 12  # so that sums of prices stay exact in 28 digits
_FINEST = 9
_FIELDS = {CPU: "cpu", MEMORY: "memory", PODS: "pods", "nvidia.com/gpu": "gpus"}
_MOST_NAME = 200  # 253 letters are allowed, and new nodes get a number behind it
_MOST_AMOUNT = 2**62  # half of int64, so that a pod's request added to it does not overflow


class _Entry(KubeStruct, frozen=True):
    """One shape, as the file has it."""

    name: str = ""
    price: QuantityLike | None = None
    like: str = ""
    cpu: QuantityLike | None = None
    memory: QuantityLike | None = None
    pods: QuantityLike | None = None
    gpus: QuantityLike | None = None
    resources: dict[str, QuantityLike] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] | None = None


class PricedShape(msgspec.Struct, frozen=True):
    """Nodes of one kind that can be bought, and the price of one."""

    name: str
    price: Decimal
    node: Node  #: a template of these nodes; the new nodes get other names
    like: str = ""  #: the node of the cluster that the shape refers to; empty for none


def read_shapes(source: str | Path, nodes: Mapping[str, Node]) -> list[PricedShape]:
    """Read a list of shapes, or ``-``; raises InputError with all problems of the file, each with line and path.

    ::

        - name: m7i.xlarge
          price: 0.2016            # per hour or per month, the same for all shapes
          cpu: 3920m               # allocatable, what pods can use
          memory: 14Gi
          pods: 58                 # default: 110
          gpus: 1                  # nvidia.com/gpu
          resources: {ephemeral-storage: 80Gi}
          labels: {topology.kubernetes.io/zone: eu-west-1a}
          taints: [{key: dedicated, value: ml, effect: NoSchedule}]
        - like: general-a-1        # a node of the cluster, with its labels and taints; further fields replace its own
          price: 0.4
    """
    problems: list[Problem] = []
    shapes: list[PricedShape] = []
    for document, entries in read_contents(source, problems, expected=_EXPECTED, is_single=True):
        problems += map(document.locate, _add_shapes(shapes, entries, nodes))
    if problems:
        raise InputError(problems)
    return shapes


def _add_shapes(shapes: list[PricedShape], entries: Any, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    if not isinstance(entries, list) or not entries:
        yield Problem("no list of shapes", json_path="$", hint=f"expected {_EXPECTED}")
        return
    if len(entries) > MAX_LISTED:
        message = f"{len(entries)} shapes, and at most {MAX_LISTED} are compared"
        yield Problem(message, json_path="$", hint="leave out those that you do not want")
        return
    for index, content in enumerate(entries):
        reader = _Reader(f"$[{index}]", nodes)
        shape = reader.shape(content)
        if shape is not None:
            if any(known.name == shape.name for known in shapes):
                reader.wrong("name", f"a second shape is called {shape.name}", "give each shape a different name")
            shapes.append(shape)
        yield from reader.problems


class _Reader(EntryReader):
    """Builds a shape from an entry, and collects the problems of the entry."""

    def __init__(self, path: str, nodes: Mapping[str, Node]) -> None:
        super().__init__(path)
        self._nodes = nodes

    def shape(self, content: Any) -> PricedShape | None:
        """Return the shape; when there are problems, it is not to be used."""
        if not isinstance(content, dict):
            self.problems.append(Problem("no shape", json_path=self.path, hint="for example {name: m7i, cpu: 4, …}"))
            return None
        entry = self.converted(content, _Entry)
        if entry is None:
            return None
        self._entry = entry
        model = self._nodes.get(entry.like, Node())
        if entry.like and entry.like not in self._nodes:
            hint = did_you_mean([entry.like], self._nodes) or "kubectl get nodes lists the nodes"
            self.wrong("like", f"the snapshot has no node {entry.like}", hint)
        name = entry.name or entry.like
        if not name:
            self.wrong("name", "a shape needs a name", "name: m7i.xlarge, or like: NODE")
        elif len(name) > _MOST_NAME or dns_subdomain_problems(name):
            problem = next(iter(dns_subdomain_problems(name)), f"must be no more than {_MOST_NAME} characters")
            self.wrong("name", f"{name!r} cannot begin the name of a node: {problem}", "for example m7i.xlarge")
        allocatable = self._allocatable(model.status.allocatable)
        labels = self._labels(model.metadata.labels)
        node = replace(
            model,
            metadata=replace(model.metadata, name=model.metadata.name or name, labels=labels),
            spec=NodeSpec(taints=self._taints(model.spec.taints)),
            status=replace(model.status, allocatable=allocatable, capacity=allocatable),
        )
        return PricedShape(name, self._price(), node, entry.like)

    def _price(self) -> Decimal:
        entered = self._entry.price
        hint = f"a number from 0 to {_MOST:,} with up to {_FINEST} decimals, such as 0.2016"
        if entered is None:
            self.wrong("price", "a shape needs a price", hint)
            return Decimal(0)
        try:
            price = Decimal(str(entered))
        except InvalidOperation:
            price = Decimal("NaN")
        exponent = price.as_tuple().exponent
        if not price.is_finite() or not 0 <= price <= _MOST or (isinstance(exponent, int) and exponent < -_FINEST):
            self.wrong("price", f"{entered!r} is not a price", hint)
            return Decimal(0)
        return price

    def _allocatable(self, model: Mapping[str, Any]) -> dict[str, Any]:
        entry = self._entry
        named: dict[str, QuantityLike | None] = {resource: getattr(entry, field) for resource, field in _FIELDS.items()}
        allocatable = {PODS: "110", **model}
        for resource, amount in entry.resources.items():
            field = f"resources.{resource}"
            if named.get(resource) is not None:
                self.wrong(field, f"{resource} appears twice", f"leave out {_FIELDS[resource]}, or this one")
            allocatable[resource] = self._amount(field, amount)
        for resource, own_amount in named.items():
            if own_amount is not None:
                allocatable[resource] = self._amount(_FIELDS[resource], own_amount)
        for resource in (CPU, MEMORY):
            if resource not in allocatable and not entry.like:
                self.wrong(resource, f"a shape needs {resource}", f"{resource}: what pods can use of it, or like: NODE")
        return allocatable

    def _amount(self, field: str, entered: QuantityLike) -> QuantityLike:
        try:
            quantity = parse(entered)
        except InvalidQuantity as error:
            self.wrong(field, f"{entered!r} is not a quantity: {error}", "for example 4, 3920m or 14Gi")
            return 0
        if not 0 <= quantity.nanos <= _MOST_AMOUNT * 10**9:
            self.wrong(field, f"{entered!r} is not an amount that a node can have", "for example 4, 3920m or 14Gi")
            return 0
        return entered

    def _labels(self, model: Mapping[str, str]) -> dict[str, str]:
        for key, value in self._entry.labels.items():
            for problem in (*label_key_problems(key), *label_value_problems(value)):
                self.wrong(f"labels.{key}", f"{key}={value} is not a label: {problem}", "for example zone: a")
        inherited = {key: value for key, value in model.items() if key != HOSTNAME}
        return {**inherited, **self._entry.labels}

    def _taints(self, model: Iterable[Taint]) -> tuple[Taint, ...]:
        entered = self._entry.taints
        for index, taint in enumerate(entered or ()):
            at = f"taints[{index}]"
            for problem in label_key_problems(taint.key):
                self.wrong(f"{at}.key", f"{taint.key!r} is not a valid taint key: {problem}", "for example dedicated")
            for problem in label_value_problems(taint.value):
                self.wrong(f"{at}.value", f"{taint.value!r} is not a valid taint value: {problem}", "for example ml")
            if taint.effect not in EFFECTS:
                self.wrong(f"{at}.effect", f"unknown effect {taint.effect!r}", f"choose from {', '.join(EFFECTS)}")
        return tuple(taint for taint in model if not states_condition(taint.key)) if entered is None else entered
