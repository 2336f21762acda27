"""A list of node shapes with prices, as a file gives it.

::

    - name: m7i.xlarge
      price: 0.2016            # an hour, a month: whatever is the same for all
      cpu: 3920m               # what pods can use of it: allocatable
      memory: 14Gi
      pods: 58                 # 110 without
      gpus: 1                  # nvidia.com/gpu
      resources: {ephemeral-storage: 80Gi}
      labels: {topology.kubernetes.io/zone: eu-west-1a}
      taints: [{key: dedicated, value: ml, effect: NoSchedule}]
    - like: general-a-1        # a node of the cluster, with its labels and taints; further fields replace its own
      price: 0.4
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kplan.api import decode
from kplan.api.base import KubeStruct
from kplan.api.core import Node, NodeSpec, NodeStatus
from kplan.api.meta import PlainMeta
from kplan.api.names import dns_subdomain_problems, label_key_problems, label_value_problems
from kplan.api.quantity import InvalidQuantity, parse
from kplan.api.tolerations import Taint
from kplan.api.wellknown import HOSTNAME
from kplan.errors import InputError, Problem
from kplan.planner.not_found import meant
from kplan.reading.content import Document
from kplan.reading.documents import read_one
from kplan.reading.limits import SETTINGS
from kplan.rules.resources import CPU, MEMORY, PODS

MAX_LISTED = 50
"""More shapes than these are not compared."""

_EXPECTED = "a list of node shapes with prices, as docs/capacity.md shows it"
_MOST = Decimal(10) ** 12
_FINEST = 9
_GPU = "nvidia.com/gpu"
_DEFAULT_PODS = "110"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MOST_NAME = 200
_MOST_AMOUNT = 2**62

Amount = str | int | float


class _Written(KubeStruct, frozen=True):
    """One shape, as it is written."""

    name: str = ""
    price: Amount | None = None
    like: str = ""
    cpu: Amount | None = None
    memory: Amount | None = None
    pods: Amount | None = None
    gpus: Amount | None = None
    resources: dict[str, Amount] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] | None = None


@dataclass(frozen=True)
class PricedShape:
    """Nodes that could be added, and what one costs."""

    name: str
    price: Decimal
    node: Node  #: the model of all of them; its name is that of none
    like: str = ""  #: the node of the cluster that it was written after; empty for none


def read_shapes(source: str | Path, nodes: Mapping[str, Node]) -> list[PricedShape]:
    """Read a list of shapes.

    Parameters
    ----------
    source : a file, or ``-``
    nodes : those of the cluster, by name

    Raises
    ------
    InputError
        With everything that is wrong, each with file, line and path.
    """
    problems: list[Problem] = []
    document = read_one(source, problems, limits=SETTINGS, expected=_EXPECTED)
    found = [] if document is None else _shapes_of(document, nodes, problems)
    if problems:
        raise InputError(problems)
    return found


def _shapes_of(document: Document, nodes: Mapping[str, Node], problems: list[Problem]) -> list[PricedShape]:
    try:
        listed = document.value()
    except decode.DecodeError as error:
        problems += [document.locate(problem) for problem in error.problems]
        return []
    if not isinstance(listed, list) or not listed:
        problems.append(document.locate(Problem("no list of shapes", json_path="$", hint=f"expected {_EXPECTED}")))
        return []
    if len(listed) > MAX_LISTED:
        message = f"{len(listed)} shapes, and {MAX_LISTED} are compared at most"
        problems.append(document.locate(Problem(message, json_path="$", hint="leave out those that you would not buy")))
        return []
    problems += [
        document.locate(
            Problem(f"{duplicate.path} stands twice", json_path=duplicate.path, hint="leave one of them out")
        )
        for duplicate in document.duplicates()
    ]
    found: list[PricedShape] = []
    for index, content in enumerate(listed):
        path = f"$[{index}]"
        written = _written(content, path, problems, document)
        if written is None:
            continue
        reader = _Reader(written, path, nodes)
        shape = reader.shape()
        if any(each.name == shape.name for each in found):
            reader.wrong("name", f"a second shape is called {shape.name}", "give each a name of its own")
        problems += map(document.locate, reader.problems)
        found.append(shape)
    return found


def _written(content: Any, path: str, problems: list[Problem], document: Document) -> _Written | None:
    if not isinstance(content, dict):
        problems.append(document.locate(Problem("no shape", json_path=path, hint="for example {name: m7i, cpu: 4, …}")))
        return None
    known = _Written.__struct_encode_fields__
    unknown = [key for key in content if key not in known]
    for key in unknown:
        near = difflib.get_close_matches(str(key), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
        problems.append(document.locate(Problem(f"unknown field {str(key)!r}", json_path=f"{path}.{key}", hint=hint)))
    try:
        return decode.convert({key: content[key] for key in known if key in content}, _Written)
    except decode.DecodeError as error:
        problems += [
            document.locate(
                Problem(problem.message, json_path=path + problem.json_path.removeprefix("$"), hint=problem.hint)
            )
            for problem in error.problems
        ]
        return None


class _Reader:
    """Makes a shape of what is written, and notes what is wrong with it."""

    def __init__(self, written: _Written, path: str, nodes: Mapping[str, Node]) -> None:
        self._written, self._path, self._nodes = written, path, nodes
        self.problems: list[Problem] = []

    def wrong(self, field: str, message: str, hint: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(message, json_path=f"{self._path}.{field}", hint=hint))

    def shape(self) -> PricedShape:
        """Return the shape; it is of no use where there are problems."""
        written = self._written
        model = self._nodes.get(written.like)
        if written.like and model is None:
            hint = meant([written.like], self._nodes) or "kubectl get nodes lists those that there are"
            self.wrong("like", f"the snapshot has no node {written.like}", hint)
        name = written.name or written.like
        if not name:
            self.wrong("name", "a shape needs a name", "name: m7i.xlarge, or like: NODE")
        elif len(name) > _MOST_NAME or dns_subdomain_problems(name):
            problem = next(iter(dns_subdomain_problems(name)), f"must be no more than {_MOST_NAME} characters")
            self.wrong("name", f"{name!r} cannot begin the name of a node: {problem}", "for example m7i.xlarge")
        allocatable = self._allocatable({} if model is None else model.status.allocatable)
        labels = self._labels({} if model is None else model.metadata.labels)
        if model is None:
            metadata, taints = PlainMeta(name=name, labels=labels), self._taints(())
            node = Node(metadata=metadata, spec=NodeSpec(taints=taints), status=NodeStatus(allocatable, allocatable))
        else:
            node = replace(
                model,
                metadata=replace(model.metadata, labels=labels),
                spec=NodeSpec(taints=self._taints(model.spec.taints)),
                status=replace(model.status, allocatable=allocatable, capacity=allocatable),
            )
        return PricedShape(name, self._price(), node, written.like)

    def _price(self) -> Decimal:
        given = self._written.price
        hint = f"a number from 0 to {_MOST:,} with up to {_FINEST} decimals, such as 0.2016"
        if given is None:
            self.wrong("price", "a shape needs a price", hint)
            return Decimal(0)
        try:
            price = Decimal(str(given))
        except InvalidOperation:
            price = Decimal("NaN")
        exponent = price.as_tuple().exponent
        if not price.is_finite() or not 0 <= price <= _MOST or (isinstance(exponent, int) and exponent < -_FINEST):
            self.wrong("price", f"{given!r} is no price", hint)
            return Decimal(0)
        return price

    def _allocatable(self, model: Mapping[str, Any]) -> dict[str, Any]:
        written = self._written
        named = {CPU: written.cpu, MEMORY: written.memory, PODS: written.pods, _GPU: written.gpus}
        fields = {CPU: "cpu", MEMORY: "memory", PODS: "pods", _GPU: "gpus"}
        found = {PODS: _DEFAULT_PODS, **model}
        for resource, amount in written.resources.items():
            field = f"resources.{resource}"
            if named.get(resource) is not None:
                self.wrong(field, f"{resource} stands twice", f"leave out {fields[resource]}, or this one")
            found[resource] = self._amount(field, amount)
        for resource, given in named.items():
            if given is not None:
                found[resource] = self._amount(fields[resource], given)
        for resource in (CPU, MEMORY):
            if resource not in found and not written.like:
                self.wrong(resource, f"a shape needs {resource}", f"{resource}: what pods can use of it, or like: NODE")
        return found

    def _amount(self, field: str, given: Amount) -> Amount:
        try:
            amount = parse(given)
        except InvalidQuantity as error:
            self.wrong(field, f"{given!r} is no quantity: {error}", "for example 4, 3920m or 14Gi")
            return 0
        if not 0 <= amount.nanos <= _MOST_AMOUNT * 10**9:
            self.wrong(field, f"{given!r} is no amount that a node has", "for example 4, 3920m or 14Gi")
            return 0
        return given

    def _labels(self, model: Mapping[str, str]) -> dict[str, str]:
        for key, value in self._written.labels.items():
            for problem in (*label_key_problems(key), *label_value_problems(value)):
                self.wrong(f"labels.{key}", f"{key}={value} is no label: {problem}", "for example zone: a")
        kept = {key: value for key, value in model.items() if key != HOSTNAME}
        return {**kept, **self._written.labels}

    def _taints(self, model: Iterable[Taint]) -> tuple[Taint, ...]:
        given = self._written.taints
        for index, taint in enumerate(given or ()):
            at = f"taints[{index}]"
            for problem in label_key_problems(taint.key):
                self.wrong(f"{at}.key", f"{taint.key!r} is no key of a taint: {problem}", "for example dedicated")
            for problem in label_value_problems(taint.value):
                self.wrong(f"{at}.value", f"{taint.value!r} is no value of a taint: {problem}", "for example ml")
            if taint.effect not in _EFFECTS:
                self.wrong(f"{at}.effect", f"unknown effect {taint.effect!r}", f"choose from {', '.join(_EFFECTS)}")
        # Taints that tell about a node's present condition are not those of a new one.
        lasting = tuple(taint for taint in model if not taint.key.startswith("node.kubernetes.io/"))
        return lasting if given is None else given
