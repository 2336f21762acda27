"""Write kplan/admission/fields.json: which fields every Kubernetes object has, and of what type.

The names come from the model classes of the ``kubernetes`` package, which are made from the API's OpenAPI description.
That description does not say everything that an API server's decoder knows; what is missing stands in go_types.txt as
facts from the API's Go types.

Usage: ``python tests/admission/generate_fields.py`` with kubernetes 37 installed. Fields that came after 1.36 are
marked with the release that brought them.
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "kplan" / "admission" / "fields.json"
MAJOR = 37
"""The major version of the package that the facts belong to."""

_PREFIX = re.compile(r"^(?:[A-Z][a-z]+)?V\d+(?:(?:alpha|beta)\d+)?(?=[A-Z])")


def _fields(text: str) -> frozenset[str]:
    """Read ``Type.one|two Other.three``."""
    words = (word.split(".", 1) for word in text.split())
    return frozenset(f"{kind}.{name}" for kind, names in words for name in names.split("|"))


#: Title -> the lines of a part of go_types.txt.
_FACTS = {
    part.partition(":")[0]: part.splitlines()[1:]
    for part in Path(__file__).with_name("go_types.txt").read_text("utf-8").split("\n# ")[1:]
}
_INT64, _POINTERS, _ALWAYS, _QUANTITIES, _NEWER = (
    _fields(" ".join(_FACTS[title])) for title in ("int64", "pointers", "always", "quantities", "1.37")
)

#: Go's structs that embed another one -> that one, and either the fields that it holds or those that it does not.
_EMBEDDING = {
    **dict.fromkeys(
        (
            *("ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource"),
            *("SecretEnvSource", "SecretKeySelector", "SecretProjection"),
        ),
        ("LocalObjectReference", {"name"}, set()),
    ),
    "Volume": ("VolumeSource", set(), {"name"}),
    "EphemeralContainer": ("EphemeralContainerCommon", set(), {"targetContainerName"}),
    "Probe": ("ProbeHandler", {"exec", "httpGet", "tcpSocket", "grpc"}, set()),
}


def build() -> dict[str, Any]:
    """Return the table: ``types`` (fields by type), ``kinds`` (type, plural, namespaced), ``newer``, Go's names."""
    from kubernetes.client import models

    kinds = _kinds()
    types: dict[str, dict[str, str]] = {}
    waiting = sorted({kind[0] for kind in kinds.values()})
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        model = getattr(models, name)
        types[name] = {}
        for attribute, kind in sorted(model.openapi_types.items()):
            field = model.attribute_map[attribute]
            code, below = _code(f"{_PREFIX.sub('', name)}.{field}", kind)
            types[name][field] = code
            waiting += [] if below is None or below in types else [below]
    # In the resources of a pod claims are refused, even none.
    types["V1PodSpec"]["resources"], resources = "CoreV1ResourceRequirements", types["V1ResourceRequirements"]
    types["CoreV1ResourceRequirements"] = resources | {"claims": f"{resources['claims']}*"}
    embedded = {
        f"{go}.{field}": inner
        for name in types
        if (go := _PREFIX.sub("", name)) in _EMBEDDING
        for inner, held, others in [_EMBEDDING[go]]
        for field in types[name]
        if field in held or (others and field not in others)
    }
    texts = {
        field: name if "." in name else f"v1.{name}"
        for name, *fields in filter(None, map(str.split, _FACTS["texts"]))
        for field in fields
    }
    return {
        "embedded": dict(sorted(embedded.items())),
        "kinds": dict(sorted(kinds.items())),
        "newer": dict.fromkeys(sorted(_NEWER), "1.37"),
        "texts": dict(sorted(texts.items())),
        "types": dict(sorted(types.items())),
    }


def _code(field: str, kind: str) -> tuple[str, str | None]:
    """Return the type as a short code, and the struct in it, if there is one.

    ``s`` string, ``b`` bool, ``i`` int32, ``l`` int64, ``n`` number, ``q`` quantity, ``x`` number or string, ``t``
    time, ``y`` bytes, ``o`` anything, or a struct; ``[`` a list of, ``{`` a map of; ``*`` a pointer, ``!`` always
    written.
    """
    if (found := re.fullmatch(r"List\[(.*)\]", kind)) is not None:
        code, below = _code(field, found[1])
        return "[" + code, below
    if (found := re.fullmatch(r"Dict\[str, (.*)\]", kind)) is not None:
        code, below = _code(field, found[1])
        return "{" + code, below
    mark = "*" if field in _POINTERS else "!" if field in _ALWAYS else ""
    if field in _QUANTITIES or kind == "int":
        return "q" if field in _QUANTITIES else ("l" if field in _INT64 else "i") + mark, None
    if kind == "object":
        return "x" if field.endswith(
            (".port", ".maxSurge", ".maxUnavailable", ".minAvailable", ".targetPort")
        ) else "o", None
    if kind in _SCALARS:
        return _SCALARS[kind] + mark, None
    return kind + mark, kind


_SCALARS = {"str": "s", "bool": "b", "float": "n", "datetime": "t", "bytes": "y"}


def _kinds() -> dict[str, list[Any]]:
    """Return type, plural and whether it lives in a namespace, for every kind that can be created."""
    from kubernetes.client import api

    found: dict[str, list[Any]] = {}
    for file in sorted(Path(inspect.getfile(api)).parent.glob("*_api.py")):
        source = file.read_text("utf-8")
        bodies = dict(re.findall(r"\n    def create_(\w+)\(\s+self,.*?\n        body: (\w+),", source, re.DOTALL))
        paths = re.findall(
            r"\n    def _create_(\w+)_serialize\(.*?resource_path='/(?:api|apis)/([^']+)'", source, re.DOTALL
        )
        for name, path in paths:
            parts = path.split("/")
            if parts[-2] == "{name}" or parts[-1] == "{plural}" or name not in bodies:
                continue
            is_namespaced = "{namespace}" in parts
            group = "/".join(parts[:-3] if is_namespaced else parts[:-1])
            found[f"{group}/{_PREFIX.sub('', bodies[name])}"] = [bodies[name], parts[-1], is_namespaced]
    return found


def _with_alpha_groups(table: dict[str, Any]) -> dict[str, Any]:
    """Add the PodGroup of 1.36, scheduling.k8s.io/v1alpha2, which this package has only in the versions of 1.37."""
    types = table["types"]
    newer = types["V1alpha3PodGroupSpec"]
    same = ("priority", "priorityClassName", "resourceClaims", "schedulingConstraints", "schedulingPolicy")
    types["V1alpha2PodGroup"] = types["V1alpha3PodGroup"] | {"spec": "V1alpha2PodGroupSpec"}
    types["V1alpha2PodGroupSpec"] = {
        "disruptionMode": "s",
        "podGroupTemplateRef": "o",
        **{name: newer[name] for name in same},
    }
    table["kinds"]["scheduling.k8s.io/v1alpha2/PodGroup"] = ["V1alpha2PodGroup", "podgroups", True]
    return table


def text() -> str:
    """Return the file's contents."""
    return json.dumps(_with_alpha_groups(build()), separators=(",", ":")).replace('},"', '},\n"') + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
    sys.stderr.write(f"{TARGET}: {TARGET.stat().st_size} bytes\n")
