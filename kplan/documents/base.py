"""What all documents share: how structs become JSON, and what every report starts with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from kplan.catalogue import VIEWS, loaded
from kplan.errors import UsageError
from kplan.facts import ClusterChange, Count, Document, InputWarning, MissingKind, Positive

if TYPE_CHECKING:
    from kplan.snapshot.model import Snapshot

Digest = Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]
FormatVersion = Annotated[str, msgspec.Meta(pattern=r"^1\.[0-9]+$")]

Condition = Literal[
    "unschedulable",
    "stuck",
    "preemption",
    "pdb-violation",
    "gated",
    "pending",
    "unavailable",
    "new-nodes",
    "warning",
    "none",
    "regression",
    "check",
]
"""What `--fail-on` lists."""

_CONDITIONS: Mapping[str, tuple[Condition, ...]] = {
    **dict.fromkeys(("Unschedulable", "Error"), ("unschedulable", "pending")),
    "Gated": ("gated", "pending"),
    "Pending": ("pending",),
    **dict.fromkeys(("Stuck", "MissingReplicas", "HeldUpByHook"), ("stuck",)),
    **dict.fromkeys(("NotReplaced", "Refused", "JobFailed", "DrainTimedOut"), ("stuck", "unschedulable")),
    "NeverGone": ("unschedulable",),
    **dict.fromkeys(("Blocked", "PdbViolation"), ("pdb-violation",)),
    **dict.fromkeys(("Preemption", "Evicted"), ("preemption",)),
    "Unavailable": ("unavailable",),
    "NewNode": ("new-nodes",),
    "CheckFailed": ("check",),
}
"""Rule of an event -> the conditions that count it, the first of which that --fail-on lists names it."""


def is_counted(rule: str, fail_on: Collection[Condition]) -> bool:
    return not set(fail_on).isdisjoint(_CONDITIONS.get(rule, ()))


class SnapshotRef(Document, frozen=True, kw_only=True):
    """Where the cluster comes from, and how it was changed on paper."""

    source: str
    taken_at: str | None  #: RFC 3339; null when unknown
    #: nodes, pods, digest: of the cluster after these changes
    nodes: Count
    pods: Count
    digest: Digest
    missing: tuple[MissingKind, ...]  #: kinds that could not be read
    #: the changes on paper, in order; absent where there are none
    changes: tuple[ClusterChange, ...] | UnsetType = UNSET

    @classmethod
    def of(cls, snapshot: Snapshot, *, has_digest: bool = True, **more: Any) -> Self:
        """Return the facts about a snapshot; without a digest that takes long where nobody reads it."""
        return cls(
            source=snapshot.source,
            taken_at=snapshot.taken_at,
            nodes=len(snapshot.nodes),
            pods=len(snapshot.pods),
            digest=snapshot.digest if has_digest else "",
            missing=snapshot.missing,
            changes=snapshot.changes or UNSET,
            **more,
        )


class SchedulerRef(Document, frozen=True, kw_only=True):
    """The scheduler that decides."""

    kubernetes_version: str  #: the release whose rules hold: a minor, or a patch release where the server is known
    feature_gates: dict[str, bool] | UnsetType = UNSET  #: those that are not at their default
    #: which of equally good nodes is chosen: as this release most likely does, the first by name, or an even draw
    ties: Literal["scheduler", "name", "even"] | UnsetType = UNSET
    seed: int | UnsetType | None = UNSET  #: of the draws; null where nothing is drawn
    profiles: tuple[str, ...]
    config_source: str


class Counted(Document, frozen=True):
    """An event that makes the verdict fail, as --fail-on lists it."""

    object: str  #: NAMESPACE/NAME of a pod, a new node, or what a warning is about; KIND/NAMESPACE/NAME of a workload
    #: of a pod: Unschedulable, Error, Gated, Pending, NeverGone, Blocked, Preemption, PdbViolation, Evicted; of a
    #: workload: Stuck, MissingReplicas, NotReplaced, Refused, JobFailed, HeldUpByHook, Unavailable; of a node:
    #: DrainTimedOut, Stuck, NewNode; of a check: CheckFailed; of a comparison: what is worse; or the code of a warning
    rule: str
    node: str | None = None  #: where it happens, for a preemption or a blocked eviction
    victim: str | None = None  #: NAMESPACE/NAME of the pod whose budget is violated
    runs: Positive | UnsetType = UNSET  #: in how many runs it happens, where a question is asked many times
    of_runs: Positive | UnsetType = UNSET  #: the number of all runs there

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What --fail-on lists of which each counts such an event."""
        return _CONDITIONS.get(self.rule, ())

    def counts(self, fail_on: Collection[Condition]) -> bool:
        return is_counted(self.rule, fail_on)

    @property
    def text(self) -> str:
        """The event in words, without the object."""
        place = f" on {self.node}" if self.node is not None else ""
        victim = f" of {self.victim}" if self.victim is not None else ""
        share = f" in {self.runs} of {self.of_runs} runs" if self.runs else ""
        return f"{self.rule}{place}{victim}{share}"


class Verdict(Document, frozen=True, kw_only=True):
    """Pass or fail: whether anything happens that --fail-on lists."""

    failed: bool
    exit_code: Literal[0, 1]  #: 0, or 1 when something in failOn happened; 0 in any case with --exit-zero
    fail_on: tuple[Condition, ...]
    because: tuple[str, ...]  #: a line for each such event
    counted: tuple[Counted, ...] = ()  #: the same events with their fields, as far as they are about single objects
    more: Count = 0  #: further such events, which are not listed

    @staticmethod
    def of(fail_on: Sequence[Condition], counted: Sequence[Counted], also: Sequence[str] = ()) -> Verdict:
        """Return the verdict on some events; `also` are lines about no single object."""
        because = (*also, *(f"{event.object}: {event.text}" if event.object else event.text for event in counted))
        failed = bool(because)
        return Verdict(
            failed=failed, exit_code=1 if failed else 0, fail_on=tuple(fail_on), because=because, counted=tuple(counted)
        )

    def without_exit_code(self) -> Verdict:
        """Return the same verdict with exit code 0, as --exit-zero has it."""
        return msgspec.structs.replace(self, exit_code=0)

    @property
    def also(self) -> tuple[str, ...]:
        """The lines of `because` about no single object; they stand before those about one."""
        return self.because[: max(len(self.because) - len(self.counted), 0)]

    def condition_of(self, event: Counted) -> Condition:
        # Pods for which a workload is stuck count with it, whatever their rule.
        candidates: tuple[Condition, ...] = (*event.conditions, "regression", "warning", "stuck", *self.fail_on)
        return next((word for word in candidates if word in self.fail_on), "none")

    def counted_of(self, name: str) -> list[Counted]:
        return [event for event in self.counted if event.object == name]

    def rule_of(self, name: str, otherwise: str) -> str:
        """Return the rule of what counts of an object; `otherwise` where nothing does."""
        return next((event.rule for event in self.counted if event.object == name), otherwise)


def to_json(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def now() -> str:
    """Return the present time as `generatedAt` has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Head(Document, frozen=True, kw_only=True):
    """What a document of any kind starts with."""

    api_version: Literal["kplan/v1"] = "kplan/v1"
    kind: str
    format_version: FormatVersion = "1.0"  #: MAJOR.MINOR; a minor adds fields only

    def to_dict(self) -> dict[str, Any]:
        from kplan.visible import encode

        fields: dict[str, Any] = msgspec.json.decode(encode(self))
        return fields


MOST_DAEMONS = 200  #: so many pending pods of daemon sets are scheduled once more, and their diagnoses shown
_MOST_SHOWN = 60  #: rows that a notebook shows, as many as it shows of a data frame


class Report(Head, frozen=True, kw_only=True):
    """The fields that every report of a question begins with."""

    TABLE: ClassVar[str] = ""  #: the list that `rows` returns, dots between fields; empty for the first one

    format_version: FormatVersion = "1.1"
    generated_at: str = msgspec.field(default_factory=now)  #: RFC 3339, in UTC
    sentence: str = ""  #: the answer, as every format for people begins
    snapshot: SnapshotRef
    scheduler: SchedulerRef
    verdict: Verdict
    warnings: tuple[InputWarning, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain values, with its sentence."""
        return super(Report, with_sentence(self)).to_dict()

    def rows(self, of: str = "") -> list[dict[str, Any]]:
        """Return a list of the document as rows with the same columns, for ``pandas.DataFrame(answer.rows())``.

        `of` is the field with the list, such as ``workloads``; empty for the main one, such as the placements. Columns
        are named as in JSON, with dots before fields of fields: ``pod.name``. What is a table itself is left out; it
        has rows of its own. Raises UsageError when there is no such list.
        """
        lists = {path: items for path, items in _lists(self) if path.partition(".")[0] not in Report.__struct_fields__}
        name = of or self.TABLE or next(iter(lists), "")
        if name not in lists:
            raise UsageError(f"{self.kind} has no list {of!r}", hint=f"choose from {', '.join(lists) or 'none'}")
        read = [dict(_cells(item)) for item in lists[name]]
        names = dict.fromkeys(name for row in read for name in row)
        # A field that is null in one row and has fields in another is its fields.
        parents = {name[:end] for name in names for end, sign in enumerate(name) if sign == "."}
        return [{name: row.get(name) for name in names if name not in parents} for row in read]

    def __str__(self) -> str:
        """Return the answer in one sentence, as every format for people begins."""
        return with_sentence(self).sentence

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the sentence, the verdict, and the main list as a table."""
        from html import escape

        from kplan.visible import visible

        def cell(value: object, tag: str = "td") -> str:
            return f"<{tag}>{'' if value is None else escape(visible(str(value)))}</{tag}>"

        rows = self.rows()
        because = "; ".join(self.verdict.because[:5])
        verdict = f"failed: {because}" if self.verdict.failed else "passed"
        more = f"<p>{len(rows) - _MOST_SHOWN:,} more rows</p>" if len(rows) > _MOST_SHOWN else ""
        head = "".join(cell(name, "th") for name in rows[0]) if rows else ""
        body = "".join(f"<tr>{''.join(map(cell, row.values()))}</tr>" for row in rows[:_MOST_SHOWN])
        about = escape(visible(f"{with_sentence(self).sentence}. Verdict: {verdict}"))
        return f"<p>{about}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


R = TypeVar("R", bound=Report)


def with_sentence(document: R) -> R:
    """Return a document with its sentence, which is made by the view that `kplan.catalogue` names for its kind."""
    if document.sentence or document.kind not in VIEWS:
        return document
    return msgspec.structs.replace(document, sentence=loaded(VIEWS[document.kind]).sentence(document))


def _lists(struct: msgspec.Struct) -> Iterator[tuple[str, Sequence[msgspec.Struct]]]:
    """Yield the lists of structs, also of those in this one, with their paths."""
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if isinstance(value, msgspec.Struct):
            yield from ((f"{field.encode_name}.{path}", items) for path, items in _lists(value))
        elif isinstance(value, tuple) and _has_structs(field.type):
            yield field.encode_name, value


def _has_structs(kind: Any) -> bool:
    """Tell whether a type is that of a list of structs, which may be empty."""
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return any(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in (item, *get_args(item)))
    return any(map(_has_structs, get_args(kind)))


def _cells(struct: msgspec.Struct, before: str = "") -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        name = f"{before}{field.encode_name}"
        if isinstance(value, msgspec.Struct):
            yield from _cells(value, f"{name}.")
        elif not isinstance(value, Mapping) and not _has_structs(field.type):
            yield name, None if value is UNSET else msgspec.to_builtins(value)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a report besides its answer: the cluster, the scheduler, and warnings."""

    snapshot: SnapshotRef
    scheduler: SchedulerRef
    warnings: tuple[InputWarning, ...] = ()
