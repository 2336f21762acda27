"""What all changes share.

A change is carried out on paper (`kplan.course.what_if`), in a cluster in motion (`kplan.course.carry_out`), or in a
trial of remedies. One that is made of others says so by its `parts`. What an answer tells of a change (`text`,
`commands`, …) is absent until `described`.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, ClassVar, Self

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.names import PodKey
from kplan.api.quantity import count, listing, readable
from kplan.errors import UsageError
from kplan.facts import Document

MOST_NAMED = 5


def json_object(name: str, text: str) -> dict[str, Any]:
    """Read an object that a field holds as JSON text; raises ValueError, which names the field."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"`{name}` is to be the text of a JSON object: {error}") from None


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
        worded = replace(self, text=self.words, commands=self.steps, undo=self.undoing)
        return replace(worded, achieves=tuple(achieves), disturbs=tuple(disturbs))


class OfNodes(ChangeBase, frozen=True):
    """A change of nodes, by their names; on paper also globs, or labels after a question mark."""

    verb: ClassVar[str] = ""  #: of kubectl, where one command does it
    undoing_verb: ClassVar[str] = ""
    happens: ClassVar[tuple[str, str]] = ("", "")  #: what one node does, and what several do, where no command does it

    nodes: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"{self.verb} {self.named}" if self.verb else f"{self.named} {self.happens[len(self.nodes) != 1]}"

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
        return (" ".join(("kubectl", verb, *map(quote, self.nodes), *filter(None, [flags]))),)


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
    place = " in" if nodes == 1 else ", each in"
    apart = "".join(f"{place} a further domain of {label}" for label in labels if "=" not in label)
    return f"add {count(nodes, 'node')} like {like}{brings}{apart}"
