"""What an answer must say."""

from __future__ import annotations

from typing import Literal

import msgspec


class Least(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A lower bound, such as ``min: 80%``."""

    min: str | int = "100%"


class Most(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An upper bound, such as ``max: 3``."""

    max: int = 0


class Expect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an answer must say; without any expectation, what its verdict says by default.

    Attributes
    ----------
    placed : ``all``: every pod of the question finds a place
    pending : at most so many pods stay pending
    blocked : at most so many evictions are refused
    ready : at least so many pods of each workload are ready at the end: a number, or a share
    within : the answer is at rest after at most such a time, such as ``20m``; needs a timeline
    new_nodes : at most so many nodes are added
    remediable : at most so many pods stay pending that a change of one step would place
    missing : at most so many workloads have fewer pods than they want, before anything happens
    """

    placed: Literal["all"] | None = None
    pending: int | None = None
    blocked: int | None = None
    ready: Least | None = None
    within: str | None = None
    new_nodes: Most | None = None
    remediable: int | None = None
    missing: int | None = None
