import contextlib
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings

import kplan
from kplan.cli import process
from kplan.snapshot import load
from tests import whole
from tests.recorded import examples, takers

#: What a test says is true or false; how long a busy machine takes to draw examples is neither.
settings.register_profile("kplan", examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kplan")

GOLDEN = Path(__file__).parent / "golden"
REPOSITORY = Path(__file__).parents[1]

process.start_loading()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is printed into tests/golden")
    parser.addoption("--whole", help="write what tests are told, whole, into this folder: see tests/whole.py")
    parser.addoption("--update-docs", action="store_true", help="write what is printed into README.md and docs/")
    parser.addoption("--update-pictures", action="store_true", help="with --browser: take docs/pictures again")
    parser.addoption("--sampled", action="store_true", help="run only what samples, draws examples or needs --browser")
    parser.addoption("--browser", action="store_true", help="open pages in headless Chromium, too (tests/browser)")


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run tests: one more than there are cores, as some tests wait for programs."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests that need a browser out unless they are asked for."""
    return True if collection_path.name == "browser" and not config.getoption("--browser") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    if config.getoption("--sampled"):
        browsed = Path(__file__).parent / "browser"
        items[:] = [one for one in items if one.path.parent == browsed or one.originalname in takers(one.module)]


def pytest_collection_finish() -> None:
    """Keep all tests and what they import out of collections, as the program keeps what it loads."""
    whole.install()
    process.finish_loading()
    gc.set_threshold(50_000, 20, 100)  # what many tests share is looked through seldom


def pytest_sessionfinish(session: pytest.Session) -> None:
    whole.write(session)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    with whole.held(pyfuncitem):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _notice_signals() -> None:
    """Let programs under test notice signals that these tests were started to ignore, as jobs in the background are."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def demo() -> kplan.Planner:
    return kplan.Planner("demo")


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """Keep what a process of a user reads and builds once, and the tests in their one process hundreds of times."""
    load_files = load._load_files

    @cache
    def kept(source: str, name: str, _path: Path, _written: int, *, needs_nodes: bool = True) -> Any:
        return load_files(source, name, None, None, needs_nodes=needs_nodes)

    def read(source: Any, name: str, *args: Any, **options: Any) -> Any:
        with contextlib.suppress(OSError, ValueError):  # no such file, or a name that none can have
            path = Path(source).resolve(strict=True)
            written = path.stat().st_mtime_ns
            if path.is_relative_to(REPOSITORY) and path.is_file():
                return kept(source, name, path, written, **options)
        return load_files(source, name, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "_load_files", read)
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file of tests/golden, or write it there."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} differs; pytest --update-golden writes it anew"

    return check
