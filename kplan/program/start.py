"""Where the program starts: what holds for the whole process is set before anything large is loaded."""

from __future__ import annotations

import os
import re
import sys
import typing
import warnings
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kplan.cli import process

process.end_at_once()  # an interrupt while anything is imported shows no traceback

_THREADS_OF_NUMPY = "OPENBLAS_NUM_THREADS"
"""NumPy's linear algebra, of which nothing is used, would start a thread a core and let each wait busily at first."""

_WITH_PATTERNS = ("yaml.constructor", "yaml.reader", "yaml.resolver")
"""Modules with patterns that few runs use: those of PyYAML, for most of which libyaml stands in, take longer to compile
than many a question to answer."""

_SELDOM = "base64 bz2 ctypes gzip json lzma msgspec.inspect pickle shellingham subprocess textwrap tokenize"
_DOCS_OF_NUMPY = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
_LATER: dict[str, dict[str, Any]] = {name: {} for name in (*_SELDOM.split(), *_DOCS_OF_NUMPY, *_WITH_PATTERNS)} | {
    "typing_extensions": {name: getattr(typing, name) for name in ("NotRequired", "Required", "get_type_hints")},
    "numpy._typing": {"NDArray": list},
    "numpy._utils._inspect": {"getargspec": lambda _function: (None,) * 4},  # with which NumPy checks its own functions
    "platform": {"system": lambda: os.uname().sysname} if hasattr(os, "uname") else {},
    "ast": {"NodeVisitor": object},
    "gettext": {"gettext": str},
    "traceback": dict.fromkeys(("FrameSummary", "StackSummary"), object),
}
"""Modules that libraries import at their start, and of which few runs need more than these names."""

_CALLED = "difflib shutil typer.completion numpy.linalg"
_CALLED_OF_NUMPY = "_arraysetops_impl _histograms_impl _nanfunctions_impl _npyio_impl _polynomial_impl"
_FUNCTIONS: dict[str, dict[str, Any]] = {name: {} for name in _CALLED.split()} | {
    f"numpy.lib.{name}": {"__all__": (), "DataSource": object, "NpzFile": object} for name in _CALLED_OF_NUMPY.split()
}
"""The same for modules of which functions are imported by name: few runs call one."""

_ROOM_FOR_FRAMES = 1 << 16
"""Words of 8 bytes; what the deepest recursion that Python allows takes is less."""


class PatternLater:
    """A pattern that is compiled when somebody first uses it."""

    def __init__(self, *pattern: Any) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # whoever copies or pickles it asks for such names, also before it has its pattern
            raise AttributeError(name)
        value = self.__dict__[name] = getattr(re.compile(*self._pattern), name)
        return value


class Later(ModuleType):
    """A module that is loaded when somebody first asks for what it has, besides the names that it begins with.

    `calls`: any name in small letters may be imported, too, as of a function: the module is loaded when one is called.
    """

    def __init__(self, name: str, names: dict[str, Any], *, calls: bool) -> None:
        super().__init__(name)
        vars(self).update(names)
        self.__spec__ = ModuleSpec(name, None)  # it can be found
        self._has_names = bool(names or calls)
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if name == "__path__" and self._has_names:  # asked for by every import of names
            raise AttributeError(name)
        if not self._calls or name.startswith("__") or not name.islower():
            return self._loaded(name)
        package, _, own_name = self.__name__.rpartition(".")
        if package:
            setattr(sys.modules[package], own_name, self)  # as loading it would
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **settings: Any) -> Any:
        return self._loaded(name)(*args, **settings)

    def _loaded(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = _load(self.__name__)
        vars(self).update(vars(module))
        return getattr(module, name)


def _load(name: str) -> ModuleType:
    if name not in _WITH_PATTERNS:
        return import_module(name)
    compile_now = re.compile
    vars(re).update(compile=PatternLater)
    try:
        return import_module(name)
    finally:
        vars(re).update(compile=compile_now)


def run_as_plugin() -> None:
    run("kubectl kplan")


def complete_for_kubectl() -> None:
    from kplan.program.streams import open_streams

    open_streams()
    import typer

    from kplan.cli.answer import write_out
    from kplan.program.completion import complete
    from kplan.program.main import app

    write_out(complete(typer.main.get_command(app), sys.argv[1:]))


def run(called: str = "kplan") -> None:
    """Run kplan as a program of this name, with whose exit code the process ends."""
    process.start_loading()
    os.environ.setdefault(_THREADS_OF_NUMPY, "1")
    for name, names in (_LATER | _FUNCTIONS).items():
        sys.modules.setdefault(name, Later(name, names, calls=name in _FUNCTIONS))
    from kplan.program import streams

    streams.prepare()
    streams.open_streams()
    # Warnings of libraries name their own lines; python -W shows them.
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    from kplan.cli.messages import FAILED, say_traceback
    from kplan.program.main import app

    try:
        app(prog_name=called)
    except SystemExit as end:
        streams.end_with(end.code)
        raise
    except Exception as error:  # noqa: BLE001 - with --debug whatever went wrong arrives here
        say_traceback(error)
        sys.exit(FAILED)
    finally:
        process.end_at_once()
        process.finish()


# CPython keeps frames in chunks of 16 KB: a loop that stands at the end of one maps and unmaps the next with every
# call, which takes longer than most calls. A frame declared to be large gets a chunk with room for all that follow.
run.__code__ = run.__code__.replace(co_stacksize=_ROOM_FOR_FRAMES)
