"""Pictures of pages for the documentation: ``pytest --browser --update-pictures tests/browser/test_pictures.py``."""

import base64
import shlex
import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium.webdriver import Chrome

from tests.cli.commands import invoke
from tests.sessions import ROOT

PICTURES = ROOT / "docs" / "pictures"
WIDTH = 1000


class Picture(NamedTuple):
    """A part of a page: what writes it, the heading that it begins with (the page's begin where none), its height."""

    name: str
    command: str
    heading: str
    height: int


ALL = (
    Picture("place", "place fixtures/web.yaml --snapshot demo", "", 690),
    Picture("drain-timeline", 'drain "spot-*" --timeline --profile gke --snapshot demo', "The course", 900),
    Picture("nodes", "nodes --snapshot demo --node-groups fixtures/node-groups.yaml", "", 1100),
    Picture("check", "check --snapshot demo", "", 980),
    Picture("diff", "diff --add-nodes 2=general-a-1 --snapshot demo", "", 1000),
)


def size_of(png: bytes) -> tuple[int, int]:
    """Return width and height of a picture."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("picture", ALL, ids=lambda picture: picture.name)
def test_a_picture_shows_the_page_as_it_is(
    picture: Picture, browser: Chrome, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    printed = invoke(*shlex.split(picture.command), "-o", "html")
    assert printed.exit_code in (0, 1), printed.stderr
    page = tmp_path / "page.html"
    page.write_text(printed.stdout, encoding="utf-8")

    shown = taken(browser, page, picture)

    path = PICTURES / f"{picture.name}.png"
    if request.config.getoption("--update-pictures"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(shown)
    # Fonts and colours differ from machine to machine: the size has to be that of the part of the page.
    assert size_of(path.read_bytes()) == size_of(shown)


def taken(browser: Chrome, page: Path, picture: Picture) -> bytes:
    """Return a picture of a part of a page."""
    media = [{"name": "prefers-color-scheme", "value": "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    metrics = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(f"file://{page}")
    script = "const h = [...document.querySelectorAll('h2')].find(h => h.textContent.trim() === arguments[0]);"
    top = browser.execute_script(f"{script} return h ? h.getBoundingClientRect().top - 16 : 0", picture.heading)
    assert top > 0 or not picture.heading, f"no heading {picture.heading}"
    whole = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": top, "width": WIDTH, "height": min(picture.height, whole - top), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return base64.b64decode(shot["data"])
