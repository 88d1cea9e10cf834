"""Makes the pictures of docs/inspect.md: the pages over the project's own sessions, in a real Chromium.

    python -m scripts.inspect_pictures

Needs chromium and chromedriver. The sessions come with the project, the store is a temporary one, and the server is on
loopback. What is drawn is what the pages show; only ids and times differ from run to run.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from pathlib import Path

import uvicorn
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tenfold.apps.cli.main import run
from tenfold.apps.gateway.server import ServerThread
from tenfold.apps.inspector.application import Inspector
from tenfold.store.location import open_store
from tests.inspector.browser import Browser
from tests.inspector.conftest import Keeper

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = Path("examples") / "sessions"
WIDTH, HEIGHT = 1280, 820


def main() -> None:
    """Makes all pictures."""
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tenfold.db"
        for name, to in (("pricing.claude-code.jsonl", "10%"), ("logs.pi.jsonl", "30%")):
            assert run(["compact", str(EXAMPLES / name), "--to", to, "--store", str(place)]) == 0
        store = open_store(place)
        inspector = Inspector(store, Keeper())
        with ServerThread(uvicorn.Config(inspector.application, port=0, log_config=None, ws="none")) as server:
            driver = start_chromium()
            try:
                browser = Browser(driver, server.url)
                browser.go(f"/?token={inspector.gate.token}")
                draw(browser, store.list_sessions("default")[-1].info.id)
            finally:
                driver.quit()
        store.close()


def start_chromium() -> webdriver.Chrome:
    """Starts a Chromium that talks to loopback alone."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")
    for flag in flags:
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or "chromedriver"))


def draw(browser: Browser, session: str) -> None:
    """Goes through the pages and keeps what they look like."""
    set_screen(browser, WIDTH, HEIGHT)
    browser.go(f"/session?id={session}&at=2")
    browser.find("#reader pre")
    keep(browser, "inspect-session")
    browser.press(".buttons button", "Compact")
    browser.fill("dialog input[name=to]", "5%")
    browser.press("dialog button", "Preview")
    browser.find("dialog .planned")
    keep(browser, "inspect-preview")


def set_screen(browser: Browser, width: int, height: int) -> None:
    """Sets the size of the screen."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def keep(browser: Browser, name: str) -> None:
    """Keeps what is on the screen as a picture of the docs."""
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path = ROOT / "docs" / f"{name}.png"
    path.write_bytes(base64.b64decode(shot["data"]))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
