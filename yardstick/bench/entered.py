"""How much code one request walks through: the files and functions of Tenfold that one `before_model` enters.

    python -m yardstick.bench.entered [POLICY]

A session of the project's own is sent as one request whose window makes the policy compact. What is counted is what
is entered after a first request of the same kind warmed everything up, so imports and caches are left out.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import tenfold
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore

SOURCE = Path(__file__).resolve().parents[2] / "examples/sessions/desk.openai-chat.json"
PACKAGE = str(Path(tenfold.__file__).parent)
WINDOW = 32_000


def count_entered(work: Callable[[], object]) -> Counter[tuple[str, str]]:
    """How often each (file, function) of the package is entered while `work` runs; comprehensions are left out."""
    entered: Counter[tuple[str, str]] = Counter()

    def count_call(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            entered[code.co_filename[len(PACKAGE) + 1 :], code.co_qualname] += 1

    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered


def count_request(policy: str) -> Counter[tuple[str, str]]:
    """What one request enters that is compacted on its way."""
    request = {"model": "gpt-4o", "messages": json.loads(SOURCE.read_text(encoding="utf-8"))}

    def open_session() -> Session:
        return Session.create(
            SessionAddress(SqliteStore(":memory:"), "s"), build_policy(policy, choose_counter("gpt-4o").counter)
        )

    open_session().before_model(request, window=WINDOW)
    session = open_session()
    entered = count_entered(lambda: session.before_model(request, window=WINDOW))
    assert session.outcome is not None
    assert session.outcome.status == "compacted", session.outcome.reason
    return entered


def main() -> None:
    """Prints the figures, and what is entered most often among the functions that a request should enter once."""
    policy = sys.argv[1] if len(sys.argv) > 1 else "tail"
    entered = count_request(policy)
    print(f"{policy}: {len({file for file, _ in entered})} files, {len(entered)} functions")
    for (file, name), times in sorted(entered.items()):
        if name.rpartition(".")[2] in ("get_limits", "render_facts", "decide"):
            print(f"  {file}:{name}: {times}")


if __name__ == "__main__":
    main()
