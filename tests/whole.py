"""Holds all that tests are told, of which each asserts a part: documents, plans, printed answers and errors.

What a planner, a question, a command or `pytest.raises` hands to a test is noted, and ``golden/whole.txt`` has a digest
of it for each case of a test. Nothing is computed for it that the test does not ask for. Cases that are not there are
not held, nor are the large sets of CI. ``--update-golden`` writes what ran; ``--whole FOLDER`` writes what is digested:
the folders of two trees show with ``diff -r`` what a change changes.
"""

import fcntl
import functools
import hashlib
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, ParamSpec, Self, TypeVar

import msgspec
import pytest
from hypothesis import currently_in_test_context
from typer.testing import CliRunner, Result

from kplan import capacity, course, questions
from kplan.course.answers.placement import Placement
from kplan.course.answers.plan import Reported
from kplan.course.carried_out import CarriedOut
from kplan.course.simulation import loop
from kplan.documents import base as documents
from kplan.errors import KplanError
from kplan.facts import Document
from kplan.planner.planner import Planner
from kplan.plugins import dynamic_resources
from kplan.questions.base import Question
from kplan.questions.pods import StoredPod
from kplan.version import __version__
from tests.recorded import IS_WHOLE

GOLDEN = Path(__file__).parent / "golden" / "whole.txt"
_REPOSITORY = str(Path(__file__).parents[1])  #: which is somewhere else on each machine
_OF_COURSES = ("steps", "after", "workloads", "warnings", "obstacles")
#: Tests that compare all that they are told themselves, that depend on the machine, or that let go of what they got.
_NOT_HELD = tuple(
    f"tests/{room}"
    for room in (
        "answers/",
        "cli/test_answer",
        "cli/test_canaries",
        "cli/test_hostile_values",
        "conformance/",
        "course/simulation/test_motion",
        "fuzz/",
        "live/",
        "mcp/",
        "program/",
        "questions/place/test_view.py::test_where_no_cluster_has_room",
        "snapshot/test_redact_decisions",
        "test_",
    )
)

_NOW = 1_790_000_000.0  #: in seconds since 1970
_SPACES = r"(\s|\\n)+"
#: Ports, and what is said where an answer is slow.
_ELSEWHERE = r"127\.0\.0\.1:\d+|reading [^\"\\]* at https?:[^\"\\]*\\n"
_OF_FILES = r"{}(/[\w.-]*)*|sha256:[0-9a-f]{{64}}|[\d,]+bytes"

P = ParamSpec("P")
R = TypeVar("R")

_notes: list[Any] | None = None
_within = threading.local()
_digests: defaultdict[str, dict[str, str]] = defaultdict(dict)


def install() -> None:
    """Note what planners, questions and commands answer, and the errors that tests expect, from now on."""
    for room in (capacity, course, questions):  # all kinds of answers, whichever tests run
        for module in walk_packages(room.__path__, f"{room.__name__}."):
            import_module(module.name)
    for name, method in vars(Planner).items():
        if callable(method) and not name.startswith("_"):
            _watch(Planner, name)
    for kind, names in ((Question, ("answer", "answer_about")), (Reported, ("report",)), (Placement, ("to_document",))):
        for one in _kinds(kind):
            for name in names:
                _watch(one, name)
    _watch(CliRunner, "invoke")
    for module in (loop, dynamic_resources):
        module.time = _Clock()
    documents.datetime = _Datetime
    os.environ["COLUMNS"] = "80"  # as in the workers of pytest-xdist
    pytest.raises = _watched_raises(pytest.raises)


class _Clock:
    """The module `time` at one hour, for clusters that do not say when they were looked at."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return _NOW

    def time_ns(self) -> int:
        return int(_NOW * 10**9)


class _Datetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(_NOW, tz)


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _watch(owner: type, name: str) -> None:
    if (method := vars(owner).get(name)) is None:
        return

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        if _notes is None or getattr(_within, "call", False):
            return method(*args, **options)
        _within.call = True
        try:
            result = method(*args, **options)
        finally:
            _within.call = False
        if _notes is not None and not currently_in_test_context():  # what is drawn is not held
            _notes.append(result)
        return result

    setattr(owner, name, call)


def _watched_raises(raises: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def expecting(*args: Any, **options: Any) -> Iterator[Any]:
        with raises(*args, **options) as caught:
            yield caught
        if _notes is not None:
            _notes.append(caught.value)

    @functools.wraps(raises)
    def either(*args: Any, **options: Any) -> Any:
        return raises(*args, **options) if len(args) > 1 else expecting(*args, **options)

    return either


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """As `functools.cache`, for what several tests share: it is told to none of them."""

    def call(*args: P.args, **options: P.kwargs) -> R:
        former, _within.call = getattr(_within, "call", False), True
        try:
            return function(*args, **options)
        finally:
            _within.call = former

    return cache(functools.wraps(function)(call))


@contextmanager
def held(test: pytest.Function) -> Iterator[None]:
    """Note what a test is told, and compare it with what it was told when somebody looked at it."""
    global _notes  # noqa: PLW0603 - noted by methods that are replaced once
    if IS_WHOLE or test.nodeid.startswith(_NOT_HELD) or getattr(test.function, "is_hypothesis_test", False):
        yield
        return
    _notes = [value for value in test.funcargs.values() if isinstance(value, Document | Placement | Reported)]
    try:
        yield
        told = _told(_notes, test.config._tmp_path_factory.getbasetemp())
    finally:
        _notes = None
    if not told:
        return
    text = "\n\n".join(told)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    name, case = _named(test)
    if folder := test.config.getoption("--whole"):
        path = Path(folder, f"{name.replace('/', '.')}.{case}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(",", ",\n"), encoding="utf-8")
    if test.config.getoption("--update-golden"):
        _digests[name][case] = digest
    else:
        assert digest == _golden().get(name, {}).get(case, digest), (
            "what the test is told differs in what it does not assert: see --whole FOLDER, and --update-golden"
        )


def _told(notes: Iterable[Any], temporary: Path) -> list[str]:
    """Return what notes tell, in any order, without what varies with temporary files: also sizes, and ends of lines."""
    texts = []
    for note in notes:
        text = b"\n".join(_facts(note)).decode().replace(__version__, "")
        text = re.sub(_ELSEWHERE, "", text)
        joined = re.sub(_SPACES, "", text) if isinstance(note, Result) else text
        if _REPOSITORY in joined:
            text = joined = joined.replace(_REPOSITORY, "")
        is_of_files = str(temporary) in joined
        texts.append(re.sub(_OF_FILES.format(re.escape(str(temporary))), "…", joined) if is_of_files else text)
    return sorted(filter(None, texts))


def _facts(told: Any) -> Iterator[bytes]:
    """Yield what a note tells, encoded, as far as it is a document, or has been computed."""
    if isinstance(told, Result):
        told = [told.exit_code, told.stdout, told.stderr] if "Usage:" not in told.stdout else ()
    elif isinstance(told, KplanError):
        told = [type(told).__name__, str(told), told.hint, *map(list, getattr(told, "problems", ()))]
    elif isinstance(told, CarriedOut):
        told = [getattr(told, name) for name in _OF_COURSES]
    elif isinstance(told, Placement | Reported):
        told = vars(told) | (msgspec.structs.asdict(told) if isinstance(told, Placement) else {})
    elif isinstance(told, StoredPod):
        told = msgspec.structs.asdict(told)
    if isinstance(told, dict):
        told = [part for key in sorted(told, key=str) for part in (str(key), told[key])]
    if isinstance(told, Document | str | int | float):
        yield msgspec.json.encode(told, order="deterministic")
    elif isinstance(told, list | tuple):
        for part in told:
            yield from _facts(part)


def _named(test: Any) -> tuple[str, str]:
    """Return the name of a test without parameters, and the numbers of these."""
    indices = test.callspec.indices if hasattr(test, "callspec") else {}
    return test.nodeid.partition("[")[0], ".".join(str(indices[name]) for name in sorted(indices)) or "-"


@cache
def _golden() -> dict[str, dict[str, str]]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines() if GOLDEN.exists() else []
    return {line.split()[0]: dict(case.split("=") for case in line.split()[1:]) for line in lines}


def write(session: pytest.Session) -> None:
    """Write the digests of the tests that ran, beside those of others; drop those of tests that are no more."""
    if not _digests:
        return
    config = session.config
    is_whole = not config.option.keyword and not any("::" in arg for arg in config.args)
    there = {_named(item) for item in session.items}
    modules = {test.partition("::")[0] for test, _ in there} if is_whole else set()
    with GOLDEN.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # each worker of pytest-xdist writes its own
        _golden.cache_clear()
        cases = {(test, case): digest for test, known in _golden().items() for case, digest in known.items()}
        cases |= {(test, case): digest for test, known in _digests.items() for case, digest in known.items()}
        lines: defaultdict[str, list[str]] = defaultdict(list)
        for (test, case), digest in sorted(cases.items()):
            if (test, case) in there or test.partition("::")[0] not in modules:
                lines[test].append(f"{case}={digest}")
        text = "".join(f"{test} {' '.join(known)}\n" for test, known in lines.items())
        file.truncate(0)
        file.write(text)
