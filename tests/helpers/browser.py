"""Pages in a real headless browser: what it says on its console, what it asks for, how wide it gets."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

PHONE = 390
"""Width of a phone, CSS pixels."""


class Seen(NamedTuple):
    """What a browser saw of a page.

    Attributes:
        console: Errors and warnings on its console, breaches of the page's own policy among them.
        requests: What was asked for beside the page itself.
        width: Width of the page, CSS pixels.
        window: Width of the window.
        findings: Serious and critical findings of axe, one line each.
    """

    console: list[str]
    requests: list[str]
    width: int
    window: int
    findings: list[str]


def missing() -> str:
    """Why there is no browser; "" where there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if lacking:
        return f"{' and '.join(lacking)} not installed: apt-get install chromium chromium-driver"
    lacking = [name for name in ("selenium", "axe_selenium_python") if find_spec(name) is None]
    return f"{' and '.join(lacking)} not installed: uv sync brings the group dev" if lacking else ""


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,900",
    ):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def look(driver: Any, page: Path, *, width: int = 1200, dark: bool = False, axe: bool = True) -> Seen:
    """Opens a page and looks at it.

    Args:
        driver: The browser.
        page: The page.
        width: Width of the window, CSS pixels.
        dark: Whether the reader prefers a dark ground.
        axe: Whether to check accessibility.
    """
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width <= PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    for kind in ("browser", "performance"):
        driver.get_log(kind)  # what was said before
    driver.get(page.resolve().as_uri())
    # What is folded counts too.
    driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    size = driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    return Seen(said, _requests(driver, page), *size, findings=_axe(driver) if axe else [])


def _requests(driver: Any, page: Path) -> list[str]:
    asked = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    return [url for url in asked if url != page.resolve().as_uri() and not url.startswith("data:")]


def _axe(driver: Any) -> list[str]:
    from axe_selenium_python import Axe

    axe = Axe(driver)
    axe.inject()
    found: Sequence[Any] = axe.run()["violations"]
    return [
        f"{x['id']} ({x['impact']}): {x['nodes'][0]['html'][:200]}"
        for x in found
        if x["impact"] in ("serious", "critical")
    ]
