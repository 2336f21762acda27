"""The choice of pods by ``-A`` and ``-l``, as in kubectl."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.api.core import Pod
    from kplan.api.labels import Selector


@dataclass(frozen=True)
class PodChoiceFlags:
    """Options that choose pods of the snapshot."""

    panel: ClassVar[str] = "Pods"

    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Pods of all namespaces; overrides --namespace.")
    ] = False
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="SELECTOR", help="Pods with these labels, as in kubectl.")
    ] = ""

    def of(self, pods: Iterable[Pod], namespace: str) -> list[Pod]:
        """Return the chosen pods, in their order.

        Parameters
        ----------
        namespace : namespace of the pods, without ``-A``; empty for all

        Raises
        ------
        UsageError
            For an invalid selector.
        """
        wanted = read_selector(self.selector) if self.selector else None
        where = "" if self.all_namespaces else namespace
        return [
            pod
            for pod in pods
            if (not where or pod.metadata.namespace == where)
            and (wanted is None or wanted.matches(pod.metadata.labels))
        ]

    def keys_of(self, pods: Iterable[Pod], namespace: str) -> list[str]:
        """Return the chosen pods as NAMESPACE/NAME; as `of`."""
        return [pod.metadata.key for pod in self.of(pods, namespace)]


def read_selector(text: str) -> Selector:
    """Parse the value of ``--selector``; raises UsageError for an invalid one."""
    from kplan.api.labels import InvalidSelector
    from kplan.api.selector_text import parse_selector

    try:
        return parse_selector(text)
    except InvalidSelector as error:
        raise UsageError(f"--selector {text}: {error}", hint="for example -l pool=gpu,!spot") from None
