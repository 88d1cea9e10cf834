"""The inspector as a test has it: over a store of its own, asked directly or through a real Chromium on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from starlette.testclient import TestClient

from tenfold.apps.gateway.server import ServerThread
from tenfold.apps.inspector.application import Inspector
from tenfold.config.policies import POLICIES
from tenfold.config.settings import DEFAULT_CONFIG
from tenfold.core.meter.counters import choose_counter
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import SessionRow, Store
from tenfold.store.location import open_store
from tests.inspector.browser import Browser

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
NO_BROWSER = "no Chromium with its driver on this machine: on Debian, apt install chromium chromium-driver"


class Keeper:
    """Opens sessions with the settings that there are without any, and has no jobs."""

    def __init__(self) -> None:
        self.purged: list[str] = []
        self.answerer = Answerer()
        self.window: int | None = None

    def open(
        self, store: Store, row: SessionRow, *, namespace: str, head: str, policy: str = "", model: str = ""
    ) -> Session:
        del model
        built = DEFAULT_CONFIG.build_policy(choose_counter(row.info.model or None).counter, policy)
        place = SessionAddress(store, row.info.id, namespace, head)
        session = Session(place, built, model=row.info.model, answerer=self.answerer)
        session.compactor.use_window(self.window)
        return session

    def list_policies(self) -> list[str]:
        return list(POLICIES)

    def purge_jobs(self, namespace: str, session: str) -> None:
        del namespace
        self.purged.append(session)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in the test's own folder."""
    opened = open_store(tmp_path / "tenfold.db")
    yield opened
    opened.close()


@pytest.fixture
def keeper() -> Keeper:
    """What the pages need of the program that shows them."""
    return Keeper()


@pytest.fixture
def inspector(store: Store, keeper: Keeper) -> Inspector:
    """The pages over the store, for the person who started them."""
    return Inspector(store, keeper)


@pytest.fixture
def client(inspector: Inspector) -> Iterator[TestClient]:
    """A client that the token has let in."""
    with TestClient(inspector.application, base_url="http://127.0.0.1") as asked:
        assert asked.get(f"/?token={inspector.gate.token}").status_code == 200
        yield asked


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    """One Chromium for all tests of this process, which talks to nobody but loopback."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip(NO_BROWSER)
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--window-size=1280,900",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def served(inspector: Inspector) -> Iterator[str]:
    """The address of the pages on a real server."""
    with ServerThread(uvicorn.Config(inspector.application, port=0, log_config=None, ws="none")) as server:
        yield server.url


@pytest.fixture
def browser(chromium: webdriver.Chrome, served: str, inspector: Inspector) -> Iterator[Browser]:
    """A browser that has opened the address with the token."""
    opened = Browser(chromium, served)
    opened.go(f"/?token={inspector.gate.token}")
    yield opened
    opened.leave()
