"""A checked expression as nested functions, which evaluate it and count what that costs.

The count follows cel-go's cost tracker with Kubernetes' costs: one for each variable, selection and call, more for
what runs through strings and lists. An expression that exceeds the limit of device selectors is stopped.

Upstream: cel-go interpreter/runtimecost.go, k8s.io/apiserver pkg/cel/library/cost.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn, Protocol

from kplan.cel.costs import COSTS, LIST_COST, MAP_COST
from kplan.cel.formats import FORMAT_FUNCTIONS
from kplan.cel.kubernetes import KUBERNETES_FUNCTIONS
from kplan.cel.lists import LIST_FUNCTIONS
from kplan.cel.operators import OPERATORS
from kplan.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Ident,
    ListNode,
    MapNode,
    Message,
    Node,
    Select,
    device_access,
    is_plain_access,
)
from kplan.cel.texts import TEXT_FUNCTIONS
from kplan.cel.times import TIME_FUNCTIONS
from kplan.cel.values import (
    ABSENT,
    CelError,
    CostLimitError,
    OptionalValue,
    TypeValue,
    Value,
    find,
    no_such_overload,
)

__all__ = ["COST_LIMIT", "FUNCTIONS", "Activation", "DeviceView", "Evaluate", "build"]

#: The cost at which the evaluation of a device selector is stopped (CELSelectorExpressionMaxCost).
COST_LIMIT = 1_000_000

FUNCTIONS: dict[str, Callable[..., Value]] = {
    **OPERATORS,
    **TEXT_FUNCTIONS,
    **TIME_FUNCTIONS,
    **LIST_FUNCTIONS,
    **KUBERNETES_FUNCTIONS,
    **FORMAT_FUNCTIONS,
}

_TYPES = {
    "bool": "bool",
    "int": "int",
    "uint": "uint",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "list": "list",
    "map": "map",
    "null_type": "null_type",
    "type": "type",
    "optional_type": "optional_type",
    "google.protobuf.Timestamp": "google.protobuf.Timestamp",
    "google.protobuf.Duration": "google.protobuf.Duration",
}


class DeviceView(Protocol):
    """A device as expressions see it."""

    def cel_attribute(self, key: tuple[str, str]) -> Value:
        """Return an attribute by domain and name, `ABSENT` where there is none."""

    def cel_capacity(self, key: tuple[str, str]) -> Value:
        """Return a capacity by domain and name, `ABSENT` where there is none."""

    @property
    def cel_variables(self) -> Mapping[str, Value]:
        """The variables as declared: ``device`` and, by their full names, its fields."""


class Activation:
    """One evaluation: the device, the variables of macros, and what it has cost so far."""

    __slots__ = ("cost", "device", "variables")

    def __init__(self, device: DeviceView) -> None:
        self.device = device
        self.variables: dict[str, Value] = {}
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Add to the cost.

        Raises
        ------
        CostLimitError
            If it is too much.
        """
        self.cost += cost
        if self.cost > COST_LIMIT:
            msg = "operation cancelled: actual cost limit exceeded"
            raise CostLimitError(msg)


Evaluate = Callable[[Activation], Value]


def build(node: Node) -> Evaluate:  # noqa: PLR0911 - one return a kind of node
    """Return the function that evaluates a node."""
    match node:
        case Constant(value=value):
            return lambda _: value
        case Ident(name=name):
            return _ident(name)
        case Select() | Call() if is_plain_access(node):
            return _access(node)
        case Select():
            return _select(node)
        case Call():
            return _SPECIAL[node.function](node) if node.function in _SPECIAL else _call(node)
        case ListNode():
            return _list(node)
        case MapNode():
            return _map(node)
        case Comprehension():
            return _comprehension(node)
        case Message(name=name):
            return _no_message(name)


def _ident(name: str) -> Evaluate:
    cost = 1 + name.count(".")

    def read(activation: Activation) -> Value:
        activation.cost += cost  # checked where calls and loops add theirs, so that reading stays quick
        value = activation.variables[name]
        if isinstance(value, CelError):
            raise value
        return value

    def read_device(activation: Activation) -> Value:
        return read(activation) if name in activation.variables else activation.device.cel_variables[name]

    if name.partition(".")[0] == "device":
        return read_device
    return (lambda _: TypeValue(_TYPES[name])) if name in _TYPES else read


def _access(node: Node) -> Evaluate:
    """Read one attribute or capacity, which is most of what selectors do, without building the maps it stands in."""
    access = device_access(node)
    assert access is not None  # noqa: S101 - the caller has looked
    variable, domain, name = access
    key = domain, name
    is_attribute = variable == "device.attributes"

    def read(activation: Activation) -> Value:
        activation.cost += 4
        device = activation.device
        value = device.cel_attribute(key) if is_attribute else device.cel_capacity(key)
        if value is ABSENT:
            msg = f"no such key: {name}"
            raise CelError(msg)
        return value

    return read


def _no_message(name: str) -> Evaluate:
    def fail(_: Activation) -> NoReturn:
        msg = f"message {name} cannot be used in a device selector"
        raise CelError(msg)

    return fail


def _select(node: Select) -> Evaluate:
    operand, field = build(node.operand), node.field

    def has(activation: Activation) -> bool:
        return find(operand(activation), field).is_present

    def select(activation: Activation) -> Value:
        container = operand(activation)
        activation.cost += 1
        if isinstance(container, dict) and field in container:
            return container[field]
        found = find(container, field)
        if isinstance(container, OptionalValue):
            return found
        if not found.is_present:
            msg = f"no such key: {field}"
            raise CelError(msg)
        return found.value

    return has if node.test_only else select


def _call(node: Call) -> Evaluate:
    function = FUNCTIONS[node.function]
    arguments = tuple(map(build, node.arguments))
    cost = COSTS.get(node.function)

    def call(activation: Activation) -> Value:
        values = [argument(activation) for argument in arguments]
        activation.charge(1 if cost is None else cost(values))
        return function(*values)

    return call


def _logical(node: Call, decisive: bool) -> Evaluate:  # noqa: FBT001 - which of the two operators
    """Evaluate ``||`` or ``&&``: the decisive value wins over an error on either side."""
    terms = tuple(map(build, node.arguments))
    function = node.function

    def evaluate(activation: Activation) -> bool:
        error: CelError | None = None
        for term in terms:
            try:
                value = term(activation)
                if value is decisive:
                    return decisive is True
                if not isinstance(value, bool):
                    error = error or no_such_overload(function, value)
            except CelError as raised:
                error = error or raised
        if error is not None:
            raise error
        return not decisive

    return evaluate


def _conditional(node: Call) -> Evaluate:
    condition, truthy, falsy = map(build, node.arguments)

    def evaluate(activation: Activation) -> Value:
        value = condition(activation)
        if not isinstance(value, bool):
            raise no_such_overload("_?_:_", value)
        return truthy(activation) if value else falsy(activation)

    return evaluate


def _not_strictly_false(node: Call) -> Evaluate:
    (argument,) = map(build, node.arguments)

    def evaluate(activation: Activation) -> bool:
        activation.charge(1)
        try:
            return bool(argument(activation) is not False)
        except CelError:
            return True

    return evaluate


def _or_value(node: Call) -> Evaluate:
    """Evaluate ``orValue`` or ``or``, whose argument counts only where the optional is empty."""
    optional, default = map(build, node.arguments)
    function = FUNCTIONS[node.function]

    def evaluate(activation: Activation) -> Value:
        value = optional(activation)
        if isinstance(value, OptionalValue) and value.is_present:
            return value.value if node.function == "orValue" else value
        return function(value, default(activation))

    return evaluate


_SPECIAL: dict[str, Callable[[Call], Evaluate]] = {
    "_||_": lambda node: _logical(node, decisive=True),
    "_&&_": lambda node: _logical(node, decisive=False),
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "orValue": _or_value,
    "or": _or_value,
}


def _list(node: ListNode) -> Evaluate:
    elements = tuple((build(element), index in node.optional) for index, element in enumerate(node.elements))
    cost = 0 if all(isinstance(element, Constant) for element in node.elements) and elements else LIST_COST

    def evaluate(activation: Activation) -> list[Value]:
        activation.charge(cost)
        return [
            value for element, is_optional in elements for value in _present("list", element(activation), is_optional)
        ]

    return evaluate


def _map(node: MapNode) -> Evaluate:
    entries = tuple((build(entry.key), build(entry.value), entry) for entry in node.entries)

    def evaluate(activation: Activation) -> dict[Value, Value]:
        activation.charge(MAP_COST)
        result: dict[Value, Value] = {}
        for key, value, entry in entries:
            name = key(activation)
            if not isinstance(name, bool | int | str):
                raise no_such_overload("map key", name)
            result.update((name, item) for item in _present("map", value(activation), entry.optional))
        return result

    return evaluate


def _present(kind: str, value: Value, is_optional: bool) -> Iterable[Value]:  # noqa: FBT001 - a property of the value
    """Return the value to put in: none for an optional element that is absent."""
    if not is_optional:
        return (value,)
    if not isinstance(value, OptionalValue):
        raise no_such_overload(f"optional {kind} element", value)
    return (value.value,) if value.is_present else ()


def _comprehension(node: Comprehension) -> Evaluate:
    """Fold over a list or a map's keys; an error may stand in the accumulator, for ``all`` and ``exists`` to absorb."""
    source, initial = build(node.range), build(node.initial)
    condition, step, result = build(node.condition), build(node.step), build(node.result)
    first, second, accumulator = node.variable, node.second_variable, node.accumulator

    def evaluate(activation: Activation) -> Value:
        variables = activation.variables
        items = _items(source(activation), has_two=bool(second))
        start = initial(activation)
        activation.variables = scope = {**variables, accumulator: start}
        try:
            for key, value in items:
                scope[first] = key
                if second:
                    scope[second] = value
                if condition(activation) is not True:
                    break
                try:
                    scope[accumulator] = step(activation)
                except CelError as error:
                    scope[accumulator] = error
            return result(activation)
        finally:
            activation.variables = variables

    return evaluate


def _items(source: Value, *, has_two: bool) -> Iterator[tuple[Value, Value]]:
    if isinstance(source, dict):
        return iter(source.items())
    if isinstance(source, list):
        return enumerate(source) if has_two else ((item, None) for item in source)
    raise no_such_overload("comprehension", source)
