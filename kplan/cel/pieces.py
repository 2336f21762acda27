"""Selectors in pieces: programs for the CEL library, calls that Kubernetes defines, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import cast

import msgspec
from msgspec.structs import replace

from kplan.api.quantity import Quantity
from kplan.cel import library as cel
from kplan.cel import tree as trees
from kplan.cel.functions import DEVICE_FIELDS, FUNCTIONS, MAX_ELEMENTS
from kplan.cel.tree import Node, Tree, call, constant, constant_of, name, walk
from kplan.cel.values import (
    CelError,
    CostLimitError,
    DeviceView,
    Reader,
    Semver,
    TypeValue,
    UnsupportedError,
    Value,
    reader_of,
)

#: The functions that the library computes. Their results are not much longer than their arguments.
NATIVE = frozenset(
    (
        *("_&&_", "_||_", "_?_:_", "@not_strictly_false", "!_", "-_"),
        *("_+_", "_-_", "_*_", "_/_", "_%_", "_==_", "_!=_"),
        *("_<_", "_<=_", "_>_", "_>=_", "@in", "_[_]", "_[?_]", "_?._", "size", "dyn", "type"),
        *("int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration"),
        *("contains", "startsWith", "endsWith", "matches", "charAt", "indexOf", "lastIndexOf", "lowerAscii"),
        *("upperAscii", "trim", "split", "substring", "strings.quote"),
        *("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
        *("optional.of", "optional.none", "optional.ofNonZeroValue", "or", "orValue", "hasValue", "value"),
        *("slice", "flatten", "distinct", "reverse", "sort", "@sortByAssociatedKeys", "first", "last"),
        *("sets.contains", "sets.intersects", "sets.equivalent"),
    )
)
#: How many nodes an expression may have once bound names are substituted and macros unrolled.
_MAX_NODES = 5_000
#: How many times larger than its input the result of nested macros may be.
_MAX_GROWTH = 1_000

#: For functions that the library has too: types of the first argument (of ``in``, the last) for which kplan computes.
_COMPUTED_FOR = {
    "indexOf": ("list(",),
    "lastIndexOf": ("list(",),
    "size": ("any",),
    "@in": ("any",),
    "string": ("net.",),
    "bool": ("string", "any", "dyn"),
    "int": ("string", "any", "dyn"),
    "uint": ("string", "any", "dyn"),
    "double": ("string", "any", "dyn"),
    "type": ("any", "kubernetes.", "net."),
}
_OPAQUE = frozenset({"any", "dyn", "kubernetes.Semver", "kubernetes.Quantity"})  #: what may be a version or an amount
_SPACE, _EMPTY, _NOWHERE, _TRUE = (constant(value=value) for value in (" ", "", -1, True))
_MAPS = ("device.attributes", "device.capacity")
_TYPE_NAMES = {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"}


class _OpenCallError(Exception):
    """The arguments of a function that kplan computes depend on the variable of a macro."""


class _Fixed(msgspec.Struct, frozen=True):
    """A result that is the same for every device: a value or an error."""

    value: Value

    def __call__(self, _: DeviceView) -> Value:
        if isinstance(self.value, CelError | CostLimitError):
            raise self.value
        return self.value


class _Computed(msgspec.Struct, frozen=True):
    """The result of a function."""

    function: Callable[..., Value]
    operands: tuple[Reader, ...]

    def __call__(self, device: DeviceView) -> Value:
        return self.function(*[operand(device) for operand in self.operands])


class _Evaluated:
    """The result of a program of the library."""

    def __init__(self, root: Node, readers: Mapping[str, Reader]) -> None:
        used = dict.fromkeys(node.name for node in walk(root) if node.kind == "name" and node.name in readers)
        self.inputs = tuple((variable, readers[variable]) for variable in used)
        self._program = cel.program(root)

    def __call__(self, device: DeviceView) -> Value:
        variables: dict[str, Value] = {}
        errors: dict[str, CelError] = {}
        for variable, read in self.inputs:
            try:
                variables[variable] = read(device)
            except CelError as error:  # raised only if the program reads the variable
                errors[variable] = error
        try:
            return self._program(variables)
        except cel.MissingError as error:
            raise errors.get(error.name, error) from None


class Pieces:
    """The pieces of an expression; raises UnsupportedError if it cannot be evaluated on any device."""

    def __init__(self, tree: Tree) -> None:
        self.reads: set[tuple[str, str, str]] = set()  #: (field, domain, name) of what it reads of a device
        self.reads_all = False  #: whether it may read any others
        self._types = tree.types
        self._readers: dict[str, Reader] = {}
        self._reads_of_device: dict[tuple[str, ...], Node] = {}
        self._numbers = count()
        self._n_nodes = 0
        root = self._plain(tree.root, {})
        _check_size(trees.size(root))
        if trees.growth(root) > _MAX_GROWTH:
            raise UnsupportedError("macros in macros that multiply what they are given cannot be evaluated")
        self.n_iterations = trees.n_iterations(root)  #: that its macros need at least, if each runs to its end
        try:
            self.evaluate = self._operand(root)
        except _OpenCallError as error:
            msg = f"{error}() of what depends on the variable of a macro cannot be evaluated"
            raise UnsupportedError(msg) from None

    def _plain(self, node: Node, bound: Mapping[str, Node]) -> Node:
        """Return a node with bound names substituted, and unique names for each macro's variables."""
        if node.kind == "name":
            return bound.get(node.name, node)
        if node.kind == "loop":
            source, start, condition, step, result = node.parts
            element, key, accumulator = node.variables
            if source.kind == "list" and not source.parts:  # cel.bind and optMap expand to this
                return self._plain(result, {**bound, accumulator: self._plain(start, bound)})
            fresh = {variable: name(f"${next(self._numbers)}") for variable in node.variables if variable}
            inner = {**bound, **fresh}
            around = [self._plain(part, bound) for part in (source, start)]
            inside = [self._plain(part, inner) for part in (condition, step, result)]
            variables = (fresh[element].name, fresh[key].name if key else "", fresh[accumulator].name)
            return replace(node, parts=(*around, *inside), variables=variables)
        parts = tuple(self._plain(part, bound) for part in node.parts)
        if parts and parts[0].kind == "name" and parts[0].name == "device" and node.kind in {"select", "has"}:
            return name(f"device.{node.name}") if node.kind == "select" else _TRUE
        return replace(node, parts=parts)

    def _operand(self, node: Node) -> Reader:
        if node.kind == "constant":
            return _Fixed(constant_of(node))
        rewritten = self._rewrite(node)
        _check_size(trees.size(rewritten))  # what was rewritten may have copies of its parts, and these of theirs
        if rewritten.kind == "name" and rewritten.name in self._readers:
            return self._readers[rewritten.name]
        if rewritten.kind == "name" and rewritten.name in _TYPE_NAMES:
            return _Fixed(TypeValue(rewritten.name))
        evaluated = _Evaluated(rewritten, self._readers)
        return evaluated if evaluated.inputs else _precomputed(evaluated)

    def _rewrite(self, node: Node) -> Node:
        """Return a node with variables in place of what the library cannot evaluate."""
        self._n_nodes += 1
        _check_size(self._n_nodes)
        read = self._device_read(node)
        if read is not None:
            return read
        if node.kind == "message":
            raise UnsupportedError(f"message {node.name} cannot be evaluated")
        if node.kind == "loop":
            return self._loop(node)
        if node.kind in {"call", "method"}:
            if self._is_computed(node):
                return self._computed(node)
            if node.name not in NATIVE:
                raise UnsupportedError(f"{node.name}() cannot be evaluated")
        if (node.kind == "has" or node.name in {"_[?_]", "_?._"}) and self._type(node.parts[0]) == "any":
            # The library has versions as maps, and would return that the key is absent; this has to be an error.
            raise UnsupportedError("looking for something inside an attribute cannot be evaluated")
        return self._native(node)

    def _native(self, node: Node) -> Node:
        """Return what the library evaluates, where its answer would be another than cel-go's with changes."""
        if node.kind == "method" and node.name in {"or", "orValue"}:
            kind = self._type(node.parts[0])  # where attributes may be lists, other values may have their type
            if kind == "any" or (kind == "dyn" and self._device_read(node.parts[0]) is not None):
                return self._rewrite(node.parts[0])  # an attribute: it is no optional, and counts as it is
        parts = [self._rewrite(part) for part in node.parts]
        if node.name == "substring" and len(parts) == 3:
            parts[0] = call("_+_", parts[0], _SPACE)  # the library takes no range that ends where the text does
        elif operands := self._to_compare(node):
            parts[0] = self._variable(_Computed(_of_one_kind, tuple(map(self._operand, operands))))
        native = replace(node, parts=tuple(parts))
        if node.name in {"indexOf", "lastIndexOf"} and len(parts) == 3:  # the library takes no start beyond the text
            text, part, start = parts
            position = call("_?_:_", call("_<=_", call("size", text), start), _NOWHERE, native)
            return call("_?_:_", call("_==_", part, _EMPTY), start, position)
        return native

    def _to_compare(self, node: Node) -> tuple[Node, ...]:
        """Return the operands to look at where a version or an amount may be held equal to what is none: an error.

        The right one is looked at only to know of what type it is. Upstream's `!=` is true of whatever is not equal,
        errors of its comparison included (evalNe).
        """
        if node.name != "_==_" or trees.free_variables(node.parts[0]):
            return ()
        left, right = map(self._held_type, node.parts)
        if left not in _OPAQUE or right == "null" or (left == right and left not in {"any", "dyn"}):
            return ()
        if right not in _OPAQUE:
            return node.parts[:1]
        return () if trees.free_variables(node.parts[1]) else node.parts

    def _computed(self, node: Node) -> Node:
        """Return what stands for a call that kplan computes."""
        if trees.free_variables(node):
            raise _OpenCallError(node.name)
        # Upstream's quantities equal none that was added up: its sums are pointers, of another type.
        function = _no_equality if node.name == "_==_" and self._is_sum(node.parts[1]) else FUNCTIONS[node.name]
        reader = _Computed(function, tuple(map(self._operand, node.parts)))
        is_fixed = all(isinstance(operand, _Fixed) for operand in reader.operands)
        variable = self._variable(_precomputed(reader) if is_fixed else reader)
        kind = self._type(node)
        if kind.startswith("optional_type"):
            return Node(0, "method", "first", (variable,))
        return call("uint", variable) if kind == "uint" else variable

    def _type(self, node: Node) -> str:
        return self._types.get(node.id, "dyn")

    def _held_type(self, node: Node) -> str:
        """Return the type of a node, or of what it makes dynamic."""
        return self._held_type(node.parts[0]) if node.kind == "call" and node.name == "dyn" else self._type(node)

    def _is_sum(self, node: Node) -> bool:
        return node.name in {"add", "sub"} and self._type(node) == "kubernetes.Quantity"

    def _is_computed(self, node: Node) -> bool:
        """Whether kplan computes a call; for functions that the library has too, the types decide."""
        if node.name not in NATIVE or node.name not in FUNCTIONS:
            return node.name in FUNCTIONS
        if node.name == "_==_" and self._is_sum(node.parts[1]):
            return True
        if node.name in {"_==_", "_!=_"}:
            return any(part.kind == "call" and part.name == "type" and self._is_computed(part) for part in node.parts)
        kind = self._type(node.parts[-1 if node.name == "@in" else 0])
        if node.name == "type" and kind == "dyn":
            raise UnsupportedError("type() of a dynamic value cannot be evaluated")
        return kind.startswith(_COMPUTED_FOR[node.name])

    def _variable(self, reader: Reader) -> Node:
        variable = name(f"@{len(self._readers)}")
        self._readers[variable.name] = reader
        return variable

    def _device_read(self, node: Node) -> Node | None:
        """Return what replaces a node that reads the device; None for other nodes."""
        if node.kind == "name":
            is_field = node.name.startswith("device.")
            if node.name == "device" or (is_field and node.name.removeprefix("device.") not in DEVICE_FIELDS):
                raise UnsupportedError("the device as a value cannot be evaluated")
            return self._read_variable("field", node.name) if is_field else None
        key, is_optional = _key(node)
        if key is None:
            return None
        inner = node.parts[0]
        if inner.kind == "name" and inner.name in _MAPS:
            return self._domain(inner.name, key, node.kind, is_optional=is_optional)
        domain, was_optional = _key(inner)
        if not (isinstance(key, str) and isinstance(domain, str)) or was_optional or inner.parts[0].name not in _MAPS:
            return None
        field = inner.parts[0].name
        if is_optional:
            return Node(0, "method", "first", (self._read_variable("optional", field, domain, key),))
        return self._read_variable("has" if node.kind == "has" else "value", field, domain, key)

    def _domain(self, field: str, key: str | Node, kind: str, *, is_optional: bool) -> Node:
        if kind == "has":
            return _TRUE
        if isinstance(key, str):
            domain = self._read_variable("domain", field, key)
        else:
            maps, key_node = self._read_variable("field", field), self._rewrite(key)
            domain = call("_?_:_", call("@in", key_node, maps), call("_[_]", maps, key_node), Node(0, "map"))
        return call("optional.of", domain) if is_optional else domain

    def _read_variable(self, access: str, field: str, *path: str) -> Node:
        key = (access, field, *path)
        if key not in self._reads_of_device:
            self._reads_of_device[key] = self._variable(reader_of(access, field, *path))
            if len(path) == 2:
                self.reads.add((field, path[0], path[1]))
            elif field in _MAPS:
                self.reads_all = True
        return self._reads_of_device[key]

    def _loop(self, node: Node) -> Node:
        try:
            source, *others = node.parts
            parts = tuple(map(self._rewrite, others))
            return replace(node, parts=(self._range(source, node), *parts))
        except _OpenCallError:
            terms = trees.unrolled(node)
            if terms is None:
                raise
            return self._rewrite(terms)

    def _range(self, source: Node, loop: Node) -> Node:
        """Return the node over which a macro runs, limited if it creates a list: that has quadratic cost."""
        makes_list = any(trees.adds_to(loop.variables[2], node) for node in walk(loop.parts[3]))
        if not makes_list or (source.kind == "list" and len(source.parts) <= MAX_ELEMENTS):
            return self._rewrite(source)
        if trees.free_variables(source):
            msg = "a macro that makes a list out of a list that another macro makes cannot be evaluated"
            raise UnsupportedError(msg)
        return self._variable(_Computed(_few, (self._operand(source),)))


def _no_equality(*_: Value) -> Value:
    raise CelError("no such overload")


def _of_one_kind(value: Value, other: Value = "") -> Value:
    """Return a value that is held equal to another: for versions and amounts one of their type, or null."""
    is_opaque = isinstance(value, Semver | Quantity) and other is not None
    return _no_equality() if is_opaque and type(value) is not type(other) else value


def _few(items: Value) -> Value:
    if isinstance(items, list | dict) and len(items) > MAX_ELEMENTS:
        msg = f"a macro that makes a list out of more than {MAX_ELEMENTS} elements cannot be evaluated"
        raise UnsupportedError(msg)
    return items


def _precomputed(reader: Reader) -> _Fixed:
    try:
        return _Fixed(reader(cast("DeviceView", None)))
    except (CelError, CostLimitError) as error:
        return _Fixed(error)


def _check_size(n_nodes: int) -> None:
    if n_nodes > _MAX_NODES:
        raise UnsupportedError(f"an expression of more than {_MAX_NODES} parts cannot be evaluated")


def _key(node: Node) -> tuple[str | Node | None, bool]:
    """Return the key that a node looks up in its first part, or None, and whether the key may be absent."""
    if node.kind in {"select", "has"}:
        return node.name, False
    if node.kind != "call" or node.name not in {"_[_]", "_[?_]", "_?._"}:
        return None, False
    key = node.parts[1]
    literal = constant_of(key) if key.kind == "constant" else None
    return literal if isinstance(literal, str) else key, node.name != "_[_]"
