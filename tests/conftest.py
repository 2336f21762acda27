from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: What a test says is true or false; how long a busy machine takes to draw examples is neither.
settings.register_profile("kplan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kplan")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is printed into tests/golden")
    parser.addoption("--update-docs", action="store_true", help="write what is printed into README.md and docs/")
    parser.addoption("--browser", action="store_true", help="open pages in headless Chromium, too (tests/browser)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests that need a browser out unless they are asked for."""
    return True if collection_path.name == "browser" and not config.getoption("--browser") else None


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
