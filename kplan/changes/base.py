"""What all changes share.

A change is carried out on paper (`kplan.course.what_if`), in a cluster in motion (`kplan.course.carry_out`), or in a
trial of remedies. One that is made of others says so by its `parts`. What an answer tells of a change (`text`,
`commands`, …) is absent until `described`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from kplan.api.names import PodKey
from kplan.api.quantity import count, listing, readable
from kplan.errors import UsageError
from kplan.facts import Document
from kplan.reading.arguments import Option

MAX_GRACE = 366 * 24 * 3600  #: a year in seconds, which no pod needs to stop
MOST_NODES = 100_000  #: the largest number of nodes to add, above that of any real cluster
MOST_REPLICAS = 1_000_000
MOST_NAMED = 5
Grace = Annotated[int, Meta(ge=0, le=MAX_GRACE)]
NodeCount = Annotated[int, Meta(ge=1, le=MOST_NODES)]
Replicas = Annotated[int, Meta(ge=0, le=MOST_REPLICAS)]


def _grace_period(text: str) -> int | None:
    """Read seconds, where -1 stands for the pods' own as in kubectl; raises UsageError."""
    if not re.fullmatch(r"-1|[0-9]{1,8}", text) or int(text) > MAX_GRACE:
        raise UsageError(f"--grace-period {text}: is no number from -1 to {MAX_GRACE}", hint="give seconds, such as 30")
    return None if int(text) < 0 else int(text)


def json_object(name: str, text: str) -> dict[str, Any]:
    """Read an object that a field holds as JSON text; raises ValueError, which names the field."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"`{name}` is to be the text of a JSON object: {error}") from None


class DrainOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How nodes are drained; the flags of ``kubectl drain``.

    Attributes
    ----------
    force : also evict pods without a controller
    delete_emptydir_data : also evict pods with emptyDir volumes
    disable_eviction : delete pods, whatever disruption budgets say
    grace_period : how long pods may take to stop, in place of their own time
    skip_wait_for_delete_timeout : do not wait for pods that should be gone for longer
    """

    force: Annotated[bool, Option()] = False
    delete_emptydir_data: Annotated[bool, Option()] = False
    disable_eviction: Annotated[bool, Option(more=True)] = False
    grace_period: Annotated[Grace | None, Option("SECONDS", read=_grace_period, more=True)] = None
    skip_wait_for_delete_timeout: Annotated[Grace, Option("SECONDS", more=True)] = 0

    @property
    def flags(self) -> str:
        """The flags as a person writes them."""
        flags = ["--ignore-daemonsets"]
        flags += ["--force"] if self.force else []
        flags += ["--delete-emptydir-data"] if self.delete_emptydir_data else []
        flags += ["--disable-eviction"] if self.disable_eviction else []
        seconds = self.skip_wait_for_delete_timeout
        flags += [f"--skip-wait-for-delete-timeout={seconds}"] if seconds else []
        flags += [] if self.grace_period is None else [f"--grace-period={self.grace_period}"]
        return " ".join(flags)


class Upgrade(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How nodes are upgraded."""

    is_replaced: bool = True  #: an empty new node takes the place of each; else the node itself comes back
    surge: tuple[str, ...] = ()  #: further nodes that join first, and take pods while nodes are drained
    parallel: int = 1  #: how many nodes are drained at a time
    node_start: float = 0.0  #: seconds until a new node takes pods
    timeout: float | None = None  #: seconds after which the drain of a node is given up; null for never
    is_forced: bool = False  #: then its pods are deleted; else the upgrade ends
    uncordons_failed: bool = False  #: where the upgrade ends, the node that it ends at takes pods again
    cordons_all: bool = False  #: all nodes take no more pods from the beginning
    pause: float = 0.0  #: seconds from an empty node to its replacement
    waits_for_nodes: bool = True  #: the next node is drained when the new one is ready; else when the old one is gone
    #: the further nodes take the place of the last ones; else they are drained and removed in the end
    keeps_surge: bool = False


class ChangeBase(Document, frozen=True, kw_only=True, omit_defaults=True, tag_field="change"):
    """What all changes share, as far as an answer tells it."""

    costs: ClassVar[int] = 0  #: the `weight`, where that is always the same

    text: str | UnsetType = UNSET  #: the change in words
    #: to be pasted, in this order; a line that starts with # says what no command does
    commands: tuple[str, ...] | UnsetType = UNSET
    undo: tuple[str, ...] | UnsetType = UNSET  #: commands that undo it
    #: pods that run after this action and did not before, as NAMESPACE/NAME; KIND/NAMESPACE/NAME of the workload for
    #: replicas that the action replaces
    achieves: tuple[str, ...] | UnsetType = UNSET
    disturbs: tuple[str, ...] | UnsetType = UNSET  #: running pods that are deleted or replaced, as NAMESPACE/NAME

    @property
    def words(self) -> str:
        """The change as a sentence without a full stop."""
        raise NotImplementedError

    @property
    def steps(self) -> tuple[str, ...]:
        """The commands that a person pastes."""
        return (f"# {self.words}",)

    @property
    def undoing(self) -> tuple[str, ...]:
        """The commands that undo it; empty where none do."""
        return ()

    @property
    def weight(self) -> int:
        """How much it disturbs; only the order of these numbers matters, see `kplan.changes.sets.disturbance`."""
        return self.costs

    @property
    def needs(self) -> Sequence[str]:
        """The nodes that have to be there."""
        return ()

    @property
    def parts(self) -> Sequence[ChangeBase]:
        """The changes that it is carried out as, one after the other."""
        return (self,)

    def refused(self, where: str) -> UsageError:
        """Return the error that it means nothing in a place, such as: on paper."""
        return UsageError(f"{self.words}: cannot be done {where}")

    def described(self, achieves: Sequence[str] = (), disturbs: Sequence[str] = ()) -> Self:
        """Return the change with all that an answer tells of it."""
        return replace(
            self,
            text=self.words,
            commands=self.steps,
            undo=self.undoing,
            achieves=tuple(achieves),
            disturbs=tuple(disturbs),
        )


class OfNodes(ChangeBase, frozen=True):
    """A change of nodes, by their names; on paper also globs, or labels after a question mark."""

    verb: ClassVar[str] = ""  #: of kubectl, where one command does it
    undoing_verb: ClassVar[str] = ""

    nodes: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"{self.verb} {self.named}"

    @property
    def steps(self) -> tuple[str, ...]:
        return self.kubectl(self.verb) if self.verb else super().steps

    @property
    def undoing(self) -> tuple[str, ...]:
        return self.kubectl(self.undoing_verb) if self.undoing_verb else ()

    @property
    def needs(self) -> Sequence[str]:
        return self.nodes

    @property
    def named(self) -> str:
        """The nodes in words."""
        return listing(self.nodes, most=MOST_NAMED)

    def kubectl(self, verb: str, flags: str = "") -> tuple[str, ...]:
        """Return a command about all nodes."""
        words = ("kubectl", verb, *map(quote, self.nodes), *filter(None, [flags]))
        return (" ".join(words),)


def target_of(reference: str) -> str:
    """Return KIND/[NAMESPACE/]NAME as kubectl takes it."""
    kind, *path = reference.split("/")
    namespace = f" -n {quote(path[0])}" if len(path) > 1 else ""
    return f"{quote(kind.lower())} {quote(path[-1])}{namespace}" if path else quote(reference)


def pod_of(key: str) -> str:
    pod = PodKey.parse(key)
    return f"{quote(pod.name)} -n {quote(pod.namespace)}"


def as_json(patch: object) -> str:
    return quote(msgspec.json.encode(patch).decode())


def of_somebody_else(workload: str, *, within: bool = False) -> str:
    """Return whose a workload is that is none of those who ask, in parentheses or within some; empty for none."""
    text = f"{workload} belongs to somebody else"
    return "" if not workload else f"; {text}" if within else f" ({text})"


def addition_words(nodes: int, like: str, devices: object, labels: Sequence[str], room: Sequence[str]) -> str:
    """Return how many new nodes there are to be, and of what kind; the parameters are fields of `NodeAddition`."""
    has = [f"{'its' if nodes == 1 else 'their'} devices"] if devices else []
    has += [label for label in labels if "=" in label]
    has += [f"{readable(amount)} {resource}" for resource, _, amount in (text.partition("=") for text in room)]
    brings = f" with {listing(has)}" if has else ""
    apart = "".join(f" in a further domain of {label}" for label in labels if "=" not in label)
    return f"add {count(nodes, 'node')} like {like}{brings}{apart}"
