"""Measures what sessions cost with and without Tenfold; with `--write`, docs/bill.md gets the figures.

It replays the project's sessions and those in the folder that `TENFOLD_SESSIONS` names, in two windows and by two price
lists, and looks at five moments of each run at what the agent still saw.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from scripts.figures import describe_measurement
from tenfold.compaction.trigger.sizes import THRIFTY_TRIGGER_TOKENS
from tenfold.models.prices import Prices, describe_price_source
from tenfold.testing.methods import BASELINES
from tenfold_yardstick.bill import DEFAULT_PRICE_LISTS, get_prices
from tenfold_yardstick.commands.eval_options import read_conversations
from tenfold_yardstick.players import MethodPlayer, PlayerFactory, Recording, UnchangedPlayer, build_recording
from tenfold_yardstick.run_recall import SeenRun, SizedPlayer, find_moments, see_run
from yardstick.scripts.measure import list_folders

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bill.md"
WINDOWS = (100_000, 200_000)
HEADING = "## What it saves"
NONE, UNREFUSED = "none", "none, and nothing is refused"
METHODS: Mapping[str, PlayerFactory] = {
    NONE: UnchangedPlayer,
    UNREFUSED: UnchangedPlayer,
    "keep-last": partial(MethodPlayer, method=BASELINES["keep-last"]),
    "tenfold": SizedPlayer,
    "tenfold, the agent's model writes": partial(SizedPlayer, has_model=True),
    "thrift 0.5": partial(SizedPlayer, settings={"thrift": 0.5}),
    "thrift 1": partial(SizedPlayer, settings={"thrift": 1.0}),
}
"""What is played. Each is billed against `NONE`, whose requests above the window count as ones that just fill it."""
Played = Mapping[str, Mapping[str, SeenRun]]
"""The runs of one window, by session and method."""


def measure(methods: Mapping[str, PlayerFactory]) -> dict[int, Played]:
    """Plays all sessions in each window, each window in a process of its own."""
    with ProcessPoolExecutor(len(WINDOWS)) as pool:
        return dict(zip(WINDOWS, pool.map(partial(_play_window, methods), WINDOWS), strict=True))


def _play_window(methods: Mapping[str, PlayerFactory], window: int) -> Played:
    prices = [get_prices(name) for name in DEFAULT_PRICE_LISTS]
    tracks = [build_recording(session) for session in read_conversations(list_folders())]
    return {track.name: _play(track, methods, window, prices) for track in tracks}


def _play(
    track: Recording, methods: Mapping[str, PlayerFactory], window: int, prices: list[Prices]
) -> dict[str, SeenRun]:
    """Plays a session. One that no method would ever compact is played once, and nothing of it is hidden."""
    print(f"{track.name}, window {window:,}", file=sys.stderr)
    is_small = sum(track.tokens) <= THRIFTY_TRIGGER_TOKENS
    moments = [] if is_small else find_moments(track)

    def see(name: str, build: PlayerFactory) -> SeenRun:
        return see_run(track, moments, name, build, window=window, prices=prices, fills_window=name == NONE)

    if is_small:
        return dict.fromkeys(methods, see(NONE, UnchangedPlayer))
    return {name: see(name, build) for name, build in methods.items()}


def build_page(played: Mapping[int, Played]) -> str:
    """Returns the section of the page."""
    lines = [f"{describe_measurement()} Prices: {describe_price_source()}.", ""]
    for window, sessions in played.items():
        reached = {name: runs for name, runs in sessions.items() if runs[NONE].replay.overflows}
        lines += [f"### In a window of {window:,}", ""]
        lines += _build_table(f"all {len(sessions)} sessions", sessions)
        lines += _build_table(f"the {len(reached)} that outgrow the window", reached)
    return "\n".join([*lines, *_list_losses(played)])


def _build_table(title: str, sessions: Played) -> list[str]:
    names = [name.rpartition(":")[2] for name in DEFAULT_PRICE_LISTS]
    shares = (f"{name}, of none (of none that is never refused)" for name in names)
    head = ["", "compactions", *shares, "dearer than none", "still seen"]
    rows = [f"| {' | '.join([title, *head[1:]])} |", f"|{'---|' * len(head)}"]
    methods = next(iter(sessions.values()), {})
    for method in methods:
        runs = [(own[method], own[NONE], own[UNREFUSED]) for own in sessions.values()]
        whole = [[sum(run.replay.bills[at].total for run in each) for each in zip(*runs, strict=True)] for at in (0, 1)]
        bills = [f"${own:,.2f}, {own / none:.2f} ({own / unrefused:.2f})" for own, none, unrefused in whole]
        needed, present = sum(run.needed for run, *_ in runs), sum(run.present for run, *_ in runs)
        dearer = sum(_is_dearer(run, none) for run, none, _ in runs)
        count = sum(run.replay.compactions for run, *_ in runs)
        rows.append(f"| `{method}` | {count:,} | {' | '.join(bills)} | {dearer} | {present / max(1, needed):.3f} |")
    return [*rows, ""]


def _is_dearer(run: SeenRun, none: SeenRun) -> bool:
    """Tells whether a run costs more than one without compaction, by any price list."""
    pairs = zip(run.replay.bills, none.replay.bills, strict=True)
    return any(own.total > before.total * (1 + 1e-9) for own, before in pairs)


def _list_losses(played: Mapping[int, Played]) -> list[str]:
    """Lists where compaction did not pay, and why."""
    lines = ["### Where it did not pay", ""]
    rows = []
    for window, sessions in played.items():
        for name, runs in sessions.items():
            for method, run in runs.items():
                if method == UNREFUSED or not _is_dearer(run, runs[NONE]):
                    continue
                replay, none = run.replay, runs[NONE].replay
                shares = [own.total / before.total for own, before in zip(replay.bills, none.bills, strict=True)]
                left = replay.requests - replay.rewrote[-1] if replay.rewrote else 0
                rewritten = sum(replay.sizes[at] for at in replay.rewrote)
                several = "s" * (replay.compactions != 1)
                why = f"{replay.compactions} compaction{several} wrote {rewritten:,} tokens anew"
                rows.append(
                    f"| {name} | {window:,} | `{method}` | {' and '.join(f'{share:.3f}' for share in shares)} | {why}; "
                    f"{left} requests followed the last |"
                )
    if not rows:
        return [*lines, "Nowhere: no run cost more than the same run without compaction."]
    return [*lines, "| session | window | method | of none | why |", "|---|---|---|---|---|", *rows]


def main() -> None:
    """Measures, prints the section and, with `--write`, puts it into the page."""
    section = build_page(measure(METHODS))
    print(section)
    if "--write" in sys.argv:
        text = PAGE.read_text("utf-8")
        start = text.index("Measured on ", text.index(HEADING))
        end = text.index("\n## ", start)
        PAGE.write_text(f"{text[:start]}{section}\n{text[end:]}", "utf-8")


if __name__ == "__main__":
    main()
