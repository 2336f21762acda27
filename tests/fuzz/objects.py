"""Objects of every kind with odd contents, made from the types of their fields, spec and status alike."""

import random
from typing import Any

from msgspec import inspect

from kplan.api.kinds import KINDS
from kplan.errors import KplanError
from kplan.snapshot import load_snapshot

NAMES = ["a", "b", "web", "node-1", "default", "kube-system"]
TEXTS = [
    *NAMES, "", "0", "-1", "true", "In", "Exists", "Equal", "NoSchedule", "NoExecute", "DoNotSchedule",
    "kubernetes.io/hostname", "topology.kubernetes.io/zone", "Running", "Pending", "Always", "RollingUpdate",
    "1e99", "100m", "50%", "*/5 * * * *", "2026-01-01T00:00:00Z", "1h30m", "device.driver == 'x'", "1" * 40,
    "@team", "$(x)", "`x`", "../x", "x\x1b[31m", "\u202e", "\ud7ff", "a/b", "a/b/c", "x" * 300,
    "NaN", "inf", "null", "~", "[", "{}", "%s", "{0}",
]  # fmt: skip
QUANTITIES: list[Any] = [
    "1", "100m", "1Gi", "0", 1, 2.5, "9223372036854775807", "-1", "1e18", "1E400", "1n", "x", "1" * 60,
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 100, -1, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**63, 10**30]
WRONG: list[Any] = [None, True, [], {}, [[]], "x", 0, 1.5, {"x": {"y": []}}]
_DEEPEST = 9
_N_OBJECTS = 20
_MOST_TRIES = 12
_TIMES = ("time", "timestamp", "_added")


_PLAIN_NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "plain", "labels": {"kubernetes.io/hostname": "plain", "a": "b"}},
    "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}},
}


class Maker:
    """Makes objects from a source of chance; the same source gives the same objects."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def objects(self) -> list[dict[str, Any]]:
        """Return a cluster: mostly pods and nodes, and some of every kind."""
        common = [kind for kind in KINDS if kind.name in {"Pod", "Node", "Deployment", "PersistentVolumeClaim"}]
        kinds = [self.random.choice(common if self.random.random() < 0.6 else KINDS) for _ in range(_N_OBJECTS)]
        objects = [self.accepted(kind) if self.random.random() < 0.995 else self.object(kind) for kind in kinds]
        return list({(obj["kind"], obj["metadata"]["name"]): obj for obj in [*objects, _PLAIN_NODE]}.values())

    def accepted(self, kind: Any) -> dict[str, Any]:
        """Return an object that loads, so that kplan goes on to decide with it."""
        for _ in range(_MOST_TRIES):
            obj = self.object(kind)
            try:
                load_snapshot([obj])
            except KplanError:
                continue
            return obj
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": obj["metadata"]}

    def object(self, kind: Any) -> dict[str, Any]:
        """Return an object of a kind."""
        content = self._value(inspect.type_info(kind.type), "", 0)
        content = content if isinstance(content, dict) else {}
        metadata = content.get("metadata")
        content["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "name": self.random.choice(NAMES)}
        content["metadata"]["namespace"] = "default"
        if self.random.random() < 0.8:
            # An object with everything at random is refused at once; one that is right but for a few fields is not.
            content["metadata"] = {"name": content["metadata"]["name"], "namespace": "default"}
        return {**content, "apiVersion": kind.api_version, "kind": kind.name}

    def value(self, info: inspect.Type, name: str) -> Any:
        """Return a value of a type, such as that of the field of this name."""
        return self._value(info, name, 0)

    def _value(self, info: inspect.Type, name: str, depth: int) -> Any:
        chance = self.random.random()
        if chance < 0.004:
            return self.random.choice(WRONG)
        types = [kind for kind in getattr(info, "types", (info,)) if not isinstance(kind, inspect.NoneType)]
        kinds = {type(kind) for kind in types}
        if {inspect.StrType, inspect.IntType, inspect.FloatType} <= kinds:
            return self.random.choice(QUANTITIES[:6] if chance < 0.97 else QUANTITIES)
        kind = self.random.choice(types) if types else info
        if isinstance(kind, inspect.StructType):
            share = 0.5 if depth < 3 else 0.25
            chosen = [field for field in kind.fields if field.required or self.random.random() < share]
            tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            if depth > _DEEPEST:
                return tag
            return {**tag, **{f.encode_name: self._value(f.type, f.name, depth + 1) for f in chosen}}
        if isinstance(kind, inspect.VarTupleType | inspect.ListType):
            return [self._value(kind.item_type, name, depth + 1) for _ in range(self.random.choice([0, 1, 1, 2, 3]))]
        if isinstance(kind, inspect.DictType):
            keys = ["cpu", "memory", "pods", *self.random.choices(TEXTS, k=2)]
            return {key: self._value(kind.value_type, name, depth + 1) for key in self.random.sample(keys, 2)}
        return self._plain(kind, name, chance)

    def _plain(self, kind: inspect.Type, name: str, chance: float) -> Any:
        if isinstance(kind, inspect.BoolType):
            return chance < 0.5
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            return self.random.choice(NUMBERS[:5] if chance < 0.9 else NUMBERS)
        if isinstance(kind, inspect.AnyType):
            return self.random.choice(WRONG)
        if isinstance(kind, inspect.LiteralType):
            return self.random.choice(list(kind.values))
        if name.endswith(_TIMES) and chance < 0.97:
            return "2026-01-01T00:00:00Z"
        return self.random.choice(NAMES if chance < 0.4 else TEXTS)
