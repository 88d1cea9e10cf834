"""Measures the inspector in a real Chromium: how long a session takes to open, and how smoothly its list scrolls.

    python -m yardstick.bench.pages [ENTRIES]

Needs chromium and chromedriver, and the extra `inspect`. Each session has a store and a server of its own. It is opened
as soon as the list of sessions is there, and once more; the baseline is a session of a hundredth of the size.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import uvicorn
from selenium.webdriver import Chrome

from scripts.inspect_pictures import start_chromium
from tenfold.apps.gateway.server import ServerThread
from tenfold.apps.inspector.application import Inspector
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.session import Session, SessionAddress
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.inspector.browser import Browser
from tests.inspector.conftest import Keeper

ENTRIES = 100_000
NAME = "measured"
STEP = 4
"""Messages of a step: a question, a call, its result and an answer."""
PARTS = 10
"""How often a session is appended to, and compacted if it is to be."""
WORDS = ("error", "path", "build", "test", "value", "file", "module", "function", "return", "session", "token")
FRAMES = 240
_SCROLL = """
const [frames, done] = arguments, list = document.querySelector('.list'), gaps = [];
(async () => {
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 1; frame <= frames; frame++) {
    list.scrollTop = frame / frames * list.scrollHeight;
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  done(gaps);
})();
"""
_LOADED = "return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"


class PageTimes(NamedTuple):
    """The milliseconds until the page of a session could be used, first and again, and between frames of a scroll."""

    first: float
    again: float
    frames: list[float]


def build_session(store: Store, name: str, entries: int, *, compacted: bool) -> None:
    """Builds a session of so many messages, some of them compacted away if it is to be."""
    session = Session.create(SessionAddress(store, name), "tenfold", model="gpt-4o")
    size = entries // STEP // PARTS
    for part in range(PARTS):
        session.append(*(message for number in range(size) for message in _build_step(part * size + number)))
        if compacted:
            session.compact(to=20_000)


def build_store(place: Path, entries: int, *, compacted: bool) -> None:
    """Builds a store with one session."""
    store = open_store(place)
    build_session(store, NAME, entries, compacted=compacted)
    store.close()


def _build_step(number: int) -> list[Message]:
    turned = [*WORDS[number % len(WORDS) :], *WORDS[: number % len(WORDS)]]
    return [
        Message("user", (Text(f"question {number}: {' '.join(turned * 2)}"),), "human"),
        Message("assistant", (ToolCall(f"c{number}", "read", f'{{"path": "src/a{number}.py"}}'),), "model"),
        Message("tool", (ToolResult(f"c{number}", content=(Text("\n".join(turned * 5)),)),), "tool"),
        Message("assistant", (Text(f"answer {number}: {' '.join(turned)}"),), "model"),
    ]


def measure_store(driver: Chrome, place: Path) -> PageTimes:
    """Opens the page of the session in a store as soon as the list is there, opens it again, and scrolls its list."""
    store = open_store(place)
    inspector = Inspector(store, Keeper())
    with ServerThread(uvicorn.Config(inspector.application, port=0, log_config=None, ws="none")) as server:
        browser, times = Browser(driver, server.url), []
        browser.go(f"/?token={inspector.gate.token}")
        for _ in range(2):
            browser.go(f"/session?id={NAME}")
            times.append(float(driver.execute_script(_LOADED)))
        frames = sorted(driver.execute_async_script(_SCROLL, FRAMES))
    store.close()
    return PageTimes(times[0], times[1], frames)


def main() -> None:
    """Prints the times of each session beside those of the small one."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("there is no chromium with its driver on this machine: on Debian, apt install chromium chromium-driver")
        return
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    measured: dict[tuple[int, bool], PageTimes] = {}
    with tempfile.TemporaryDirectory() as folder:
        driver = start_chromium()
        try:
            for compacted, count in product((False, True), (entries // 100, entries)):
                place = Path(folder) / f"{count}-{compacted}.db"
                with ProcessPoolExecutor(1, get_context("spawn")) as builder:  # nothing of it is in this one's memory
                    builder.submit(build_store, place, count, compacted=compacted).result()
                if not measured:
                    measure_store(driver, place)  # the browser keeps the scripts and styles
                measured[count, compacted] = measure_store(driver, place)
        finally:
            driver.quit()
    print("milliseconds until the page of a session can be used, and from frame to frame while its list scrolls by\n")
    print(f"{'session':16} {'entries':>8} {'first':>7} {'x':>6} {'again':>6} {'frame':>6} {'p95':>6} {'most':>6}")
    for (count, compacted), times in measured.items():
        small, frames = measured[entries // 100, compacted], times.frames
        print(
            f"{'compacted' if compacted else 'not compacted':16} {count:8,} {times.first:7.0f} "
            f"{times.first / small.first:6.1f} {times.again:6.0f} "
            f"{statistics.median(frames):6.1f} {frames[int(len(frames) * 0.95)]:6.1f} {frames[-1]:6.1f}"
        )


if __name__ == "__main__":
    main()
