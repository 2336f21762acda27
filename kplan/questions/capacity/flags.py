"""The options of `kplan capacity` that ask another question, and the options that go with each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from kplan.cli.help import MORE, OPTIONS
from kplan.cli.options import flag, options, switch
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.questions.capacity.question import Capacity, Headroom, Shapes, Shrink


@options
class OtherQuestions:
    """Options that ask another question about room instead of the plain count."""

    panel: ClassVar[str] = OPTIONS

    headroom: bool = switch(
        "--headroom", "How many more replicas of each workload fit, each on its own; without FILE: all workloads."
    )
    all_namespaces: bool = switch(
        "--all-namespaces -A", "With --headroom: workloads of all namespaces (default without --namespace).", panel=MORE
    )
    lose: int | None = flag(
        "--lose N",
        "How many replicas fit so that all of them still find a place when any N nodes are lost.",
        default=None,
        min=1,
        show_default=False,
    )
    zones: bool = switch("--zones", "Lose zones instead of nodes: N with --lose N, else one.")
    shapes: str = flag(
        "--shapes FILE", "List of node shapes with prices: find the cheapest nodes to add if fewer than --replicas fit."
    )

    shrink: bool = switch(
        "--shrink", "Find as many nodes as possible that can be drained, with every pod placed and every budget kept."
    )
    force: bool = switch("--force", "With --shrink: also evict pods without a controller.", panel=MORE)
    delete_emptydir_data: bool = switch(
        "--delete-emptydir-data", "With --shrink: also evict pods with emptyDir volumes.", panel=MORE
    )

    @property
    def option(self) -> str:
        """The option of the question; empty for the plain count."""
        chosen = [option for option, is_on in self._questions().items() if is_on]
        if len(chosen) > 1:
            raise UsageError(f"{chosen[0]} and {chosen[1]} are two questions", hint="ask them one at a time")
        return chosen[0] if chosen else ""

    def _questions(self) -> Mapping[str, bool]:
        return {
            "--headroom": self.headroom,
            "--lose" if self.lose else "--zones": bool(self.lose) or self.zones,
            "--shapes": bool(self.shapes),
            "--shrink": self.shrink,
        }

    @property
    def may_ask_without_manifests(self) -> bool:
        """Whether the question can be about workloads of the cluster."""
        return self.headroom or self.shrink

    def refuse(self, arguments: Mapping[str, bool]) -> None:
        """Raise UsageError for options that the question does not use."""
        option = self.option
        if self.all_namespaces and not self.headroom:
            raise UsageError("--all-namespaces is for --headroom", hint="add --headroom, or leave it out")
        for name, is_on in {"--force": self.force, "--delete-emptydir-data": self.delete_emptydir_data}.items():
            if is_on and not self.shrink:
                raise UsageError(f"{name} is for --shrink", hint="add --shrink, or leave it out")
        for name, is_set in arguments.items():
            if is_set and name in _INCOMPATIBLE.get(option, ()):
                raise UsageError(f"{name} does not go with {option}", hint="leave one of them out")

    def question(
        self, *, replicas: int | None, mix: tuple[int, ...], limit: int | None, preempt: bool
    ) -> Capacity | Shapes | Headroom | Shrink:
        """Return the question; raises ParameterError for options that do not go together."""
        from kplan.questions.capacity.question import Capacity, Headroom, Shapes, Shrink
        from kplan.simulation.draining import DrainOptions

        if self.shrink:
            return Shrink(options=DrainOptions(force=self.force, delete_emptydir_data=self.delete_emptydir_data))
        if self.headroom:
            return Headroom(replicas=replicas, limit=limit)
        if self.shapes:
            if replicas is None:
                raise UsageError("--shapes needs --replicas", hint="for example --replicas 40")
            return Shapes(replicas=replicas, mix=mix, shapes=self.shapes)
        lose = self.lose or int(self.zones)
        of: Literal["nodes", "zones"] = "zones" if self.zones else "nodes"
        capacity = Capacity(replicas=replicas, mix=mix, limit=limit, preempt=preempt, lose=lose, of=of)
        capacity.check()
        return capacity

    @property
    def words(self) -> tuple[str, str]:
        """What kplan does meanwhile, and the words of its progress."""
        if self.shrink:
            return "draining nodes, one after another", "{0:,} can go, {1:,} looked at"
        if self.headroom:
            return "counting replicas of each workload", "{0:,} of {1:,}"
        return "counting replicas", "trying {0:,}" if self.lose or self.zones else "{0:,} fit so far"


_INCOMPATIBLE: Mapping[str, frozenset[str]] = {
    "--headroom": frozenset({"--mix", "--preempt"}),
    "--shapes": frozenset({"--preempt", "--max"}),
    "--shrink": frozenset({"FILE", "--replicas", "--mix", "--preempt", "--max"}),
}
"""Options that a question does not use."""
