"""Every kind of document: its struct, its JSON Schema, made from that and from what it says, and reading it back."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kplan.api import decode
from kplan.api.names import choice_hint
from kplan.catalogue import REPORTS, loaded
from kplan.documents.base import Report, to_json
from kplan.errors import InputError, Problem, UsageError
from kplan.reading.arguments import descriptions

_OF_FILES = ("PodsReport", "SnapshotOverview", "SnapshotCheck", "SchedulerConfigReport", "SchedulerConfigCheck")
KINDS: Mapping[str, str] = {**REPORTS, **dict.fromkeys(_OF_FILES, "kplan.documents.files")}

Complete = Callable[[dict[str, Any], type[msgspec.Struct] | None], dict[str, Any]]


def struct_of(kind: str) -> Any:
    return loaded(f"{KINDS[kind]}:{kind}")


SCHEMA_KINDS = tuple(sorted(KINDS))
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def load_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a kind with the definitions that it refers to; raises UsageError for no kind."""
    if kind not in KINDS:
        raise UsageError(f"no document is of kind {kind!r}", hint=choice_hint(kind, SCHEMA_KINDS, 0.4))
    return schema_of(struct_of(kind), _completed)


def schema_of(root: type[msgspec.Struct], complete: Complete) -> dict[str, Any]:
    """Return the schema of a struct, with those that it refers to; `complete` makes msgspec's the published ones."""
    structs = _structs_in(msgspec.inspect.type_info(root))
    uses = Counter(struct.__name__ for struct in structs)
    # msgspec names structs of the same name by their modules.
    private = {f"{struct.__module__}.{struct.__name__}": struct for struct in structs if uses[struct.__name__] > 1}
    text = msgspec.json.encode(msgspec.json.schema_components([root])[1]).decode()
    for name, struct in private.items():
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{_name_with_family(struct)}"')
    of_structs = {struct.__name__: struct for struct in structs} | private
    schemas: dict[str, Any] = {}
    for name, schema in msgspec.json.decode(text).items():
        public = _name_with_family(private[name]) if name in private else name
        schemas[public] = complete(schema, of_structs.get(name))
    own = _name_with_family(root) if uses[root.__name__] > 1 else root.__name__
    return {"$schema": _DIALECT, **schemas.pop(own), "$defs": dict(sorted(schemas.items()))}


def _name_with_family(struct: type[msgspec.Struct]) -> str:
    """Return a name such as UncordonRemedy: a remedy and a change share the name Uncordon."""
    bases = [base for base in struct.__mro__ if issubclass(base, msgspec.Struct) and base is not msgspec.Struct]
    families = [base.__name__.removesuffix("Base") for base in bases if base.__struct_config__.tag_field]
    return struct.__name__ + (families[-1] if families else "")


def schema_text(kind: str) -> str:
    """Return the schema of a kind as JSON text; raises UsageError when there is none."""
    return to_json(load_schema(kind)) + "\n"


def _structs_in(kind: Any) -> set[type[msgspec.Struct]]:
    structs: set[type[msgspec.Struct]] = set()
    waiting = [kind]
    while waiting:
        current = waiting.pop()
        if isinstance(current, msgspec.inspect.StructType):
            if current.cls in structs:
                continue
            structs.add(current.cls)
            waiting += [field.type for field in current.fields]
        elif isinstance(current, msgspec.inspect.Type):
            parts = (getattr(current, name) for name in current.__struct_fields__)
            waiting += [part for held in parts for part in (held if isinstance(held, tuple) else (held,))]
    return structs


def _completed(schema: dict[str, Any], struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    """Return msgspec's schema as one of written documents: every field required, described, and no others allowed."""
    schema = _simplified(schema)
    if struct is None:
        return schema
    fields = msgspec.structs.fields(struct)
    describe(schema, struct)
    tag = struct.__struct_config__.tag_field
    omits = struct.__struct_config__.omit_defaults
    needed = (field for field in fields if (field.required if omits else field.default is not msgspec.UNSET))
    return {
        **{key: value for key, value in schema.items() if key != "description"},
        "description": summary(struct),
        "required": [*([tag] if tag else ()), *(field.encode_name for field in needed)],
        "additionalProperties": False,
    }


def describe(schema: dict[str, Any], struct: type[msgspec.Struct]) -> None:
    described = descriptions(struct)
    for field in msgspec.structs.fields(struct):
        if field.name in described:
            schema["properties"][field.encode_name]["description"] = described[field.name]


def summary(struct: type[msgspec.Struct]) -> str:
    """Return the first paragraph of a struct's docstring."""
    return " ".join(inspect.cleandoc(struct.__doc__ or "").partition("\n\n")[0].split())


def _simplified(value: Any) -> Any:
    """Return a schema without defaults, since written documents hold every field, and ``const`` for a single choice."""
    if isinstance(value, list):
        return [_simplified(item) for item in value]
    if not isinstance(value, dict):
        return value
    simplified = {key: _simplified(item) for key, item in value.items() if key not in ("default", "properties")}
    if "properties" in value:
        simplified["properties"] = {name: _simplified(item) for name, item in value["properties"].items()}
    if len(simplified.get("enum", ())) == 1:
        simplified["const"] = simplified.pop("enum")[0]
    return simplified


_API_VERSION = "kplan/v1"
_MAJOR = "1"
_HINT = "save the report anew; kplan schema KIND prints what it must look like"


def read_report(path: str) -> Report:
    """Return a report that kplan wrote as JSON or YAML, compressed with gzip or not; ``-`` reads standard input.

    Raises InputError when it cannot be read, or is no report of a kind that can be printed.
    """
    from kplan.reading import files
    from kplan.reading.documents import read_document

    problems: list[Problem] = []
    read = read_document(path, problems, limits=files.REPORTS, expected="a report that kplan saved, as JSON or YAML")
    if read is None:
        raise InputError(problems)
    try:
        value = read.value()
        strange = _strange(value)
        if strange is None:
            report: Report = decode.convert(_with_kinds(value), struct_of(value["kind"]))
            return report
    except decode.DecodeError as error:
        own = (one._replace(hint=one.hint or _HINT) for one in error.problems)
        raise InputError([*map(read.locate, own)]) from None
    raise InputError([read.locate(strange)])


def _with_kinds(value: Any) -> Any:
    """Return a document whose details have a ``kind``; those of format 1.0, which have none, are told fact by fact."""
    if isinstance(value, list):
        return [_with_kinds(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _with_kinds(item) for key, item in value.items()}
    if isinstance(value.get("reasons"), list) and isinstance(value.get("details"), list):
        for number, detail in enumerate(value["details"]):
            if isinstance(detail, dict) and "kind" not in detail:
                facts = {name: fact for name, fact in detail.items() if name != "reason"}
                fields["details"][number] = {"kind": "other", "reason": detail.get("reason", ""), "facts": facts}
    return fields


def _strange(value: Any) -> Problem | None:
    """Return what is wrong with a document that is not a report; None for a report."""
    if not isinstance(value, dict) or value.get("apiVersion") != _API_VERSION:
        message, hint = f"not a kplan report: apiVersion is not {_API_VERSION}", "kplan plan --save FILE writes one"
        return Problem(message, json_path="$.apiVersion", hint=hint)
    kind, version = value.get("kind"), value.get("formatVersion")
    if not isinstance(kind, str) or kind not in REPORTS:
        hint = f"it can be one of {', '.join(REPORTS)}"
        return Problem(f"cannot print a document of kind {decode.describe(kind)}", json_path="$.kind", hint=hint)
    if not isinstance(version, str) or version.partition(".")[0] != _MAJOR:
        message, hint = f"format version {decode.describe(version)} is not {_MAJOR}.x", "use the kplan that wrote it"
        return Problem(message, json_path="$.formatVersion", hint=hint)
    return None
