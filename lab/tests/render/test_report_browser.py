"""The report in a real browser: Chromium without a window, steered through its WebDriver."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ferry_lab.run.study_files import REPORT_HTML
from ferry_lab.studies import find_study
from made_up import DOCUMENTS, report_files
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

PHONE, SMALL_PHONE, TABLET, DESKTOP = 390, 320, 768, 1440
WIDTHS = (SMALL_PHONE, PHONE, TABLET, DESKTOP)

# Contrasts of text and marks with what is behind them, after WCAG 2.1. Answers the lowest contrast,
# and its text; "large" is not told apart, because nothing needs it.
CONTRAST = """
const channel = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const luminance = ([r, g, b]) =>
  0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
const contrast = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
let worst = { contrast: 99, text: "", count: 0 };
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const text = walker.currentNode.textContent.trim();
  if (!text || element.tagName === "title" || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const ink = element.closest("svg") ? style.fill : style.color;
  const found = contrast(parse(ink), behind(element));
  worst.count += 1;
  if (found < worst.contrast) worst = { ...worst, contrast: found, text };
}
return worst;
"""

# What sticks out of the page to the right; what lies in a box that scrolls by itself may.
OVERFLOW = """
const width = document.documentElement.clientWidth;
const inside = (e) => e.closest(".scroll, pre") && !e.matches(".scroll, pre");
return {
  page: document.documentElement.scrollWidth - width,
  elements: [...document.body.querySelectorAll("*")]
    .filter((e) => !inside(e) && e.getBoundingClientRect().right > width + 0.5)
    .map((e) => `${e.tagName} ${e.textContent.trim().slice(0, 40)}`),
};
"""


# How many figures each study's page has, and the first one's name.
FIGURES = {
    "placements": (5, "reads"),
    "optimizations": (3, "file-sizes"),
    "storages": (3, "threads"),
    "scale": (10, "along-callers"),
}


@pytest.fixture(scope="module", params=list(FIGURES))
def study(request: pytest.FixtureRequest) -> str:
    """The name of a study; every test is made with each."""
    return str(request.param)


@pytest.fixture(scope="module")
def folder(study: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report, without the results that it names."""
    folder = tmp_path_factory.mktemp("report")
    document = DOCUMENTS[study]()
    for name, content in report_files(find_study(study)(), document).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program and driver, "chromium and chromedriver are missing; ./test installs them"
    options = ChromeOptions()
    options.binary_location = program
    for argument in (
        *("--headless=new", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage"),
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options, Service(driver))
    yield chrome
    chrome.quit()


def emulate(browser: Chrome, width: int, scheme: str = "light", medium: str = "") -> None:
    """Makes the page as wide as that device; ``medium`` "print" for paper."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < TABLET},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})


def visit(browser: Chrome, folder: Path, width: int, scheme: str = "light") -> None:
    emulate(browser, width, scheme)
    browser.get((folder / REPORT_HTML).as_uri())


def drain(browser: Chrome) -> tuple[list[Any], set[str]]:
    """Returns the console's messages, and what was requested, since the last call."""
    console = browser.get_log("browser")
    requested = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            requested.add(message["params"]["request"]["url"])
    return console, requested


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_in_silence(browser: Chrome, folder: Path, study: str, width: int, scheme: str) -> None:
    drain(browser)
    visit(browser, folder, width, scheme)
    console, requested = drain(browser)
    assert console == []
    # The page itself is all that was asked for: no font, no script, no picture.
    assert {url for url in requested if not url.startswith("data:")} == {(folder / REPORT_HTML).as_uri()}
    shown = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect())"
        ".filter(r => r.width > 0).map(r => [r.width, r.height])"
    )
    assert len(shown) == FIGURES[study][0]
    assert all(200 < across <= width and down > 100 for across, down in shown)


def test_the_browser_would_tell_of_a_request(browser: Chrome, tmp_path: Path) -> None:
    """The test above can fail."""
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://localhost:9/x.png'><script>console.error('oh')</script>")
    drain(browser)
    browser.get(page.as_uri())
    console, requested = drain(browser)
    assert any("oh" in entry["message"] for entry in console)
    assert any("localhost:9" in url for url in requested)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(browser: Chrome, folder: Path, width: int) -> None:
    visit(browser, folder, width)
    assert browser.execute_script(OVERFLOW) == {"page": 0, "elements": []}


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_text_in_plots_is_large_enough_and_not_cut_off(browser: Chrome, folder: Path, width: int) -> None:
    visit(browser, folder, width)
    texts = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')]"
        ".filter(s => s.getBoundingClientRect().width > 0)"
        ".flatMap(s => { const box = s.getBoundingClientRect();"
        " const scale = box.width / s.viewBox.baseVal.width;"
        " return [...s.querySelectorAll('text')].map(t => {"
        " const r = t.getBoundingClientRect();"
        " return [t.textContent, parseFloat(getComputedStyle(t).fontSize) * scale,"
        " box.left - r.left, r.right - box.right, box.top - r.top, r.bottom - box.bottom]; }); })"
    )
    assert len(texts) > 50
    for text, pixels, *beyond in texts:
        assert pixels >= 10.5, text
        assert max(beyond) <= 1, text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_text_has_contrast(browser: Chrome, folder: Path, width: int, scheme: str) -> None:
    visit(browser, folder, width, scheme)
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(255, 255, 255)") == (scheme == "light")
    worst = browser.execute_script(CONTRAST)
    assert worst["count"] > 300
    assert worst["contrast"] >= 4.5, worst


def test_colours_of_plots_change_with_the_scheme(browser: Chrome, folder: Path, study: str) -> None:
    def colours() -> set[str]:
        return set(
            browser.execute_script(
                f"return [...document.querySelectorAll('#{FIGURES[study][1]} .wide svg path')]"
                ".map(p => getComputedStyle(p).stroke)"
            )
        )

    visit(browser, folder, DESKTOP)
    light = colours()
    emulate(browser, DESKTOP, "dark")
    assert len(light & colours() - {"none"}) == 0
    # On paper it is light, whatever the screen is.
    emulate(browser, DESKTOP, "dark", "print")
    assert colours() == light


def test_it_prints(browser: Chrome, folder: Path) -> None:
    visit(browser, folder, DESKTOP, "dark")
    emulate(browser, DESKTOP, "dark", "print")
    shown = browser.execute_script(
        "return ['wide', 'narrow', 'files'].map(c =>"
        " document.querySelector(`figure .${c}`).getClientRects().length > 0)"
    )
    assert shown == [True, False, False]
    answer = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(answer["data"]).startswith(b"%PDF-")
