"""Reading manifests from files, directories, the output of other programs, and plain objects.

A file that is named must hold objects. A directory often holds other files too: chart values, templates, settings of
other tools. Files without objects in a directory are passed over and listed; a broken manifest is a problem.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from kplan.admission.decoding import nearest_kind
from kplan.errors import Problem, UsageError
from kplan.reading.arguments import listed, refuse_empty
from kplan.reading.documents import read_documents
from kplan.reading.files import MANIFESTS, STANDARD_INPUT, files_below, folders_above
from kplan.reading.items import Item, items_of
from kplan.reading.positions import Document, Lines
from kplan.workloads import PassedOver
from kplan.workloads.expansion import WORKLOADS

_HEAD = 1 << 20
_KIND = rb"""(?m)^[ \t]*+(?:- )?["']?kind["']?\s*:"""
_JSON_KIND = rb'"kind"\s*:'
_NO_OBJECTS = "no Kubernetes objects"
_ELSEWHERE = rb"""(?m)^[ \t]*-[ \t]*["']?(\.\./|https?://|github\.com/)"""
"""An entry of a kustomization's resources, bases or components that leads out of its directory."""
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_PATCHES = ("patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "configurations")
"""Fields of a kustomization that name files which change objects and are none."""

_MOST_WAYS = 3  # a hint names so many; the others are counted
_MOST_FOLDERS = 4  #: a file is part of a kustomization at most so many folders above it


class Text(msgspec.Struct, frozen=True):
    """Manifests that another program printed; `name` is its name in messages."""

    name: str
    data: bytes


Source = str | Path | Text | Mapping[str, Any]


class _NoLines(Lines):
    """The lines of an object that comes from no file."""

    def of(self, path: str) -> int:  # noqa: ARG002 - as every Lines
        return 0


class _PlainObject(Document):
    """An object that comes from no file."""

    def locate(self, problem: Problem) -> Problem:
        return Problem(problem.message, path=self.file, json_path=problem.json_path, hint=problem.hint)

    @property
    def lines(self) -> Lines:
        return _NoLines()

    def duplicates(self) -> tuple[()]:
        """Return nothing: a mapping holds no key twice."""
        return ()


class Sources(msgspec.Struct):
    """Reads manifests object by object, and collects problems and the files that are passed over."""

    problems: list[Problem] = []
    passed_over: list[PassedOver] = []
    skips_others: bool = False  #: a file that holds no manifests is passed over also where it is named
    patches: dict[Path, frozenset[str]] = {}  #: folder -> the files that its kustomization names as patches

    def items(self, sources: Sequence[Source]) -> Iterator[Item]:
        for number, source in enumerate(listed(sources), 1):
            refuse_empty(source)
            if isinstance(source, Mapping):
                yield from items_of(_PlainObject(f"object {number}", number, 1, dict(source)), self.problems)
            elif isinstance(source, Text):
                for document in read_documents("-", self.problems, limits=MANIFESTS, stdin=io.BytesIO(source.data)):
                    document.file = source.name
                    yield from items_of(document, self.problems)
            elif not isinstance(source, str | Path):
                raise UsageError(
                    f"{source!r} is neither a path nor an object", hint="give a path, or an object as a dict"
                )
            elif str(source) != STANDARD_INPUT and _is(Path.is_dir, source):
                files = files_below(Path(source), self.problems, "name a directory with Kubernetes objects")
                yield from chain.from_iterable(map(self._file, files))
            elif self.skips_others and Path(source).is_file():
                yield from self._file(Path(source))
            elif Path(source).name in _KUSTOMIZATIONS:
                hint = f"build it with -k {shlex.quote(str(Path(source).parent))}"
                self.problems.append(Problem("a kustomization holds no objects", path=str(source), hint=hint))
            else:
                for document in read_documents(source, self.problems, limits=MANIFESTS):
                    yield from items_of(document, self.problems)

    def as_built(self, problem: Problem) -> Problem:
        """Return a problem with what to do about its file where another program builds objects from that."""
        if not problem.path or (passed_over := self._by_name(Path(problem.path))) is None:
            return problem
        return problem._replace(hint=f"the file is {passed_over.reason}")

    def _file(self, file: Path) -> Iterator[Item]:
        if (passed_over := self._by_name(file)) is not None:
            self.passed_over.append(passed_over)
            return
        problems: list[Problem] = []
        items: list[Item] = []
        documents: list[Document] = []
        for document in read_documents(file, problems, limits=MANIFESTS):
            documents.append(document)
            items += items_of(document, problems)
        if problems and documents and not items and not any(map(_says_what_it_is, documents)):
            self.passed_over.append(PassedOver(str(file), _NO_OBJECTS))
            return
        if problems and (reason := _reason_by_content(file, items)):
            self.passed_over.append(PassedOver(str(file), reason))
            return
        # An object of Kubernetes has apiVersion, or at least a kind that is or resembles one of its own.
        if items and not problems and not any(item.api_version or nearest_kind("", item.kind) for item in items):
            self.passed_over.append(PassedOver(str(file), _NO_OBJECTS))
            return
        self.problems += problems
        yield from items

    def _by_name(self, file: Path) -> PassedOver | None:
        """Return a file that another program builds objects from, of a kustomization or a chart; None for others."""
        command = f"-k {shlex.quote(str(file.parent))}"
        if file.name in _KUSTOMIZATIONS:
            is_overlay = _is_overlay(file)
            kind = "part of an overlay of kustomize" if is_overlay else "a kustomization"
            return PassedOver(str(file), f"{kind}; build it with {command}", command, is_overlay)
        if any(_is_overlay(file.parent / name) for name in _KUSTOMIZATIONS):
            return PassedOver(
                str(file), f"part of an overlay of kustomize; build it with {command}", command, is_overlay=True
            )
        for folder in file.parents[:_MOST_FOLDERS]:
            if os.path.normpath(file) in self._patches_of(folder):
                command = f"-k {shlex.quote(str(folder))}"
                return PassedOver(str(file), f"a patch of a kustomization; build it with {command}", command)
        chart = next((folder for folder in folders_above(file) if _is(Path.is_file, folder / "Chart.yaml")), None)
        is_own = chart == file.parent and file.name.startswith(("Chart.", "values"))
        if chart is None or not (is_own or file.is_relative_to(chart / "templates")):
            return None
        command = f"helm template {shlex.quote(str(chart))} | kplan place -"
        kind = "part of a chart" if is_own else "a template of a chart"
        return PassedOver(str(file), f"{kind}; render it with {command}", command)

    def _patches_of(self, folder: Path) -> frozenset[str]:
        """Return the files that the kustomization of a folder names as patches; empty where it has none."""
        if folder not in self.patches:
            file = next((folder / name for name in _KUSTOMIZATIONS if _is(Path.is_file, folder / name)), None)
            contents = [] if file is None else [one.content for one in read_documents(file, [], limits=MANIFESTS)]
            lists = [content.get(field) for content in contents if isinstance(content, dict) for field in _PATCHES]
            entries = [entry for names in lists if isinstance(names, list) for entry in names]
            named = [entry.get("path") if isinstance(entry, dict) else entry for entry in entries]
            texts = [name for name in named if isinstance(name, str) and "\n" not in name]
            self.patches[folder] = frozenset(os.path.normpath(folder / name) for name in texts)
        return self.patches[folder]


def _is(kind: Callable[[Path], bool], path: str | Path) -> bool:
    """Tell whether a path is of a kind, such as a file; not where it cannot be looked up."""
    try:
        return kind(Path(path))
    except (OSError, ValueError):
        return False


def _says_what_it_is(document: Document) -> bool:
    """Return whether a document, or an element of it, has `kind` or `apiVersion`, which most settings files lack."""
    content: Any = document.content
    if isinstance(content, msgspec.Raw):
        try:
            content = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            return True
    elements = content if isinstance(content, list) else [content]
    return any(
        isinstance(element, dict) and not element.keys().isdisjoint(("kind", "apiVersion")) for element in elements
    )


def _is_overlay(kustomization: Path) -> bool:
    try:
        with kustomization.open("rb") as stream:
            return re.search(_ELSEWHERE, stream.read(_HEAD)) is not None
    except OSError:
        return False


def _reason_by_content(file: Path, items: Sequence[Item]) -> str:
    """Return why a file that cannot be read holds no manifests; empty if it seems to hold some."""
    try:
        with file.open("rb") as stream:
            text = stream.read(_HEAD)
    except OSError:
        return ""
    if b"{{" in text:
        return "a template; render it first"
    has_kind = re.search(_KIND, text) or re.search(_JSON_KIND, text)
    return "" if items or has_kind else _NO_OBJECTS


def no_workloads(sources: Sequence[Source], passed_over: Sequence[PassedOver], foreign: Sequence[str] = ()) -> Problem:
    """Return the problem of manifests without a pod and without a workload.

    `foreign`: kinds that are not known and have pod templates.
    """
    names = [one.name if isinstance(one, Text) else str(one) for one in sources if isinstance(one, str | Path | Text)]
    hint = f"name files that hold one of {', '.join(WORKLOADS)}"
    hint = _builds(passed_over) or hint
    if foreign:
        kinds = " ".join(f"--as-deployment {kind}" for kind in dict.fromkeys(foreign))
        hint = f"{kinds} places the pods of such kinds as those of Deployments"
    return Problem("no pod and no workload in the manifests", path=", ".join(names), hint=hint)


def _builds(passed_over: Sequence[PassedOver]) -> str:
    """Return what to type for the kustomizations and charts among passed over files; empty where there is none."""
    kinds = (
        ("overlay", [file.built_by for file in passed_over if file.is_overlay]),
        ("kustomization", [file.built_by for file in passed_over if file.built_by.startswith("-k ")]),
        ("chart", [file.built_by for file in passed_over if file.built_by.startswith("helm ")]),
    )
    hints: list[str] = []
    for kind, commands in kinds:
        ways = list(dict.fromkeys(commands))
        if not ways or (kind == "kustomization" and hints):
            continue
        more = f", and {len(ways) - _MOST_WAYS} more" if len(ways) > _MOST_WAYS else ""
        verb = "render" if kind == "chart" else "build"
        article = "an" if kind == "overlay" else "a"
        which = f"is {article} {kind}; {verb} it" if len(ways) == 1 else f"are {len(ways)} {kind}s; {verb} one"
        hints.append(f"there {which} with {' or '.join(ways[:_MOST_WAYS])}{more}")
    return "; ".join(hints)
