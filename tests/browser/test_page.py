"""The HTML report in a real browser: it sorts, filters, folds and links, asks nobody for anything, and fits."""

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser import pages


def opened(browser: Chrome, page: Path, width: int = 1000, fragment: str = "") -> None:
    browser.set_window_size(width, 900)
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(f"file://{page}{fragment}")


def column(browser: Chrome, table: Any, number: int) -> list[str]:
    script = "return [...arguments[0].tBodies[0].rows].map(row => row.cells[arguments[1]].textContent)"
    cells: list[str] = browser.execute_script(script, table, number)
    return cells


def test_it_requests_nothing_and_its_console_is_silent(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    requests = [entry for entry in browser.get_log("performance") if "Network.requestWillBeSent" in entry["message"]]
    assert [entry for entry in requests if "file://" not in entry["message"]] == []
    assert [entry["message"] for entry in browser.get_log("browser")] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1000, 1600])
def test_it_fits_its_width_and_its_text_stands_out(browser: Chrome, page: Path, width: int, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    opened(browser, page, width)

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    colours = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    text, background = browser.execute_script(colours)
    assert contrast(text, background) >= 7
    dim = browser.execute_script("return getComputedStyle(document.querySelector('.legend, .note')).color")
    assert contrast(dim, background) >= 4.5
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def contrast(text: str, other: str) -> float:
    """Return the contrast of two CSS colours as WCAG has it."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(text), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_tables_sort_by_a_click_and_back(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    table = browser.find_elements(By.CSS_SELECTOR, "#nodes ~ .scroll table")[0]
    button = table.find_element(By.CSS_SELECTOR, "th button")
    names = column(browser, table, 0)
    browser.execute_script("arguments[0].click()", button)
    assert column(browser, table, 0) == sorted(names)
    browser.execute_script("arguments[0].click()", button)
    assert column(browser, table, 0) == sorted(names, reverse=True)
    assert table.find_element(By.CSS_SELECTOR, "th").get_attribute("aria-sort") == "descending"


def test_numbers_sort_as_numbers(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    table = browser.find_elements(By.CSS_SELECTOR, "#nodes ~ .scroll table")[0]
    heads = [head.text for head in table.find_elements(By.CSS_SELECTOR, "th")]
    place = heads.index("cpu")
    browser.execute_script("arguments[0].click()", table.find_elements(By.CSS_SELECTOR, "th button")[place])
    shares = [float(text.rpartition(" ")[2].rstrip("%")) for text in column(browser, table, place) if text]
    assert shares == sorted(shares)


def test_a_filter_leaves_the_rows_that_hold_the_word(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    field = browser.find_element(By.CSS_SELECTOR, "#nodes ~ .scroll input.filter")
    table = browser.find_elements(By.CSS_SELECTOR, "#nodes ~ .scroll table")[0]
    word = column(browser, table, 0)[3].lower()
    field.send_keys(word)

    rows = (
        "return [...arguments[0].tBodies[0].rows].filter(row => !row.hidden).map(row => row.textContent.toLowerCase())"
    )
    left = browser.execute_script(rows, table)
    assert left
    assert all(word in text for text in left)


def test_details_fold_with_the_keyboard(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    summary = browser.find_elements(By.CSS_SELECTOR, "main > details > summary")[0]
    is_open = "return arguments[0].parentElement.open"
    before = browser.execute_script(is_open, summary)
    browser.execute_script("arguments[0].focus()", summary)
    summary.send_keys(Keys.ENTER)
    assert browser.execute_script(is_open, summary) is not before


def test_every_link_leads_somewhere_on_the_page(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    broken = "return [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
    links = browser.execute_script(broken + ".filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))")
    assert links == []


def test_a_page_of_five_thousand_nodes_stays_under_two_megabytes() -> None:
    assert len(pages.text("many").encode()) < 2_000_000
