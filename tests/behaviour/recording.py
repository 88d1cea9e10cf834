"""What every policy makes of every recorded session, as hashes: a refactoring must leave all of them as they are.

Each session is taken along its path from the root to the last entry and compacted three ways, with ids that follow
from the case and times left out:

- `tenth`: all of it at once, to a tenth of its tokens;
- `8k` and `32k`: in four parts, with the policy's own check of such a window after each;
- `model`: as `tenth`, with a model whose answers follow from its prompts, so that the prompts are covered too;
- `list`: the messages as a provider's list, through `tenfold.compact`, to a tenth.

Of a file with many sessions every tenth is taken.

`hashes.json` holds what 0.1.0 made of each case. What a later change was meant to alter is in `changes.json`: under the
name of the change, the cases and their new hashes. `EXPLAINED` says why, once for each change.

`python -m tests.behaviour.recording` prints what differs from both, and `--write NAME` adds that to `changes.json`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
from msgspec.structs import replace

import tenfold
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.codec import encode_entry
from tenfold.core.record.entry import Attempt, MessageEntry
from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.formats import ParsedSession
from tenfold.session import Session, SessionAddress, Stamps
from tenfold.session.drive import Answerer
from tenfold.store.ids import ContentIdGenerator
from tenfold.store.sqlite.store import SqliteStore
from tests import sessions
from tests.laws.recorded import get_path

FILE = Path(__file__).parent / "hashes.json"
CHANGES = Path(__file__).parent / "changes.json"
WINDOWS = {"8k": 8_000, "32k": 32_000}
WAYS = ("tenth", *WINDOWS, "model", "list")
MANY = 20
PARTS = 4
LEAST_TARGET = 500
EXPLAINED = {
    "current-request": (
        "The current request is the newest message of the user that asks for something, by one rule for facts, plans "
        "and continuations. Where the user's newest word was an acknowledgement (`ok`, `Yes, please proceed.`), plans "
        "kept that word in view, and `threshold` and `sliding` quoted it; now it is the request before it, as it "
        "always was in the facts."
    ),
    "story": (
        "Summaries are written for a reader who has to go on: by code as a story in order with content, by a model "
        "with most of the room and a checklist. Facts tell statuses from the results' own words, rules from requests, "
        "and what changes held; a request of more than a quarter of the target is shown by head and tail."
    ),
    "hard-limit": (
        "Above the hard limit any plan that gets below it is taken, whatever a Block must save otherwise, by one "
        "summary of everything older where the policy's own stages do not get there. Where reports of usage, or a "
        "correction that is a guess, say that nothing fits, what fits by our own count is tried (decision 0019)."
    ),
    "passed-on": (
        "What a program or the user passes on (a log, a page, a quotation, another program's wrapper) is quoted where "
        "the story tells a user's line, and makes no request and no rule. The wrappers of more programs are known."
    ),
    "edges": (
        "The facts' first line says that code found them and that long ones are shortened; decisions and plans say "
        "whose they are and where they stand; a changed file is listed where its path is merely mentioned in view. The "
        "line for a step is a user's. Facts are read from messages without secrets. Made ids of Gemini's calls come "
        "from their content, and images count by their size."
    ),
    "true-sentences": (
        "Sentences of a model's text that are true stay: a clause that repeats the source with its denial, ranges of "
        "line numbers, lines that the transcript left out, error messages beside a word for running. The wrappers of "
        "more programs are known."
    ),
    "designs": (
        "The five published designs, whole. `tail`: the lists of files are of the covered range and stand last. "
        "`tiers`: an answer that is no summary keeps what the first two tiers did. `blocks`: scope goes by what loops "
        "take compacted, and a model's text is checked as under `tiers`. `threshold` and `sliding`: a count by a "
        "vocabulary is not doubled, the mechanical summary has a line for every message, and the summariser is sent "
        "four fifths of its window. `clip`: its message begins with its own first line, and merging begins above the "
        "window and its buffer."
    ),
    "readable-lines": (
        "A Block keeps what the provider counted when it was made. Without a model, `threshold` and `sliding` tell "
        "what people said before they tell of tools, each with 60 characters or more, and count what has no line. "
        "Refusals and plans are told in what the provider counts. Random words are a summary under no policy."
    ),
    "unanswered-results": (
        "Results that the model has not answered yet stay whole under `tenfold`, up to half of the limit or a quarter "
        "of an explicit target. Where a plan needs no summary, the facts stand before them, under all policies."
    ),
    "left-as-is": "What the user wants left as it is (`leave the old commits as they are`) is a rule.",
    "other-hands": (
        "What broke in other hands was mended at its mechanism. A Block that was made for a target keeps no sizes of "
        "the provider. Outputs are cut no further than needed, and room that a text leaves goes to the newest of them. "
        "Files of Claude Code and Codex are read as their clients load them, and parallel calls recorded one after the "
        "other keep their results. Sealed reasoning counts by its length. `tail` and `clip` bound the facts by the "
        "text, and the user's rules stand beside that bound. `blocks` tells silent turns by tool, target and outcome, "
        "the summary of `tiers` is a system message, and `threshold` summarizes a request that is too long alone."
    ),
}
"""Each change since 0.1.0 by name, oldest first, and why it alters what becomes of the cases in `changes.json`."""


class QuotingModel:
    """Answers with the headings and every seventh line of its prompt, within its allotment, and keeps the prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        """The text that follows from the prompt."""
        self.prompts.append(repr((ask.system, ask.prompt, ask.max_tokens, ask.purpose, ask.effort)))
        lines = [line for line in ask.prompt.splitlines() if line.strip()]
        quoted = [line for number, line in enumerate(lines) if line.startswith("#") or number % 7 == 0]
        return Answer(text="\n".join(quoted)[: ask.max_tokens * 2], spent=ModelCost(calls=1))


def iterate_cases() -> Iterator[tuple[str, ParsedSession, str, str]]:
    """Every (name of the case, session, policy, way), in a stable order."""
    for path in sessions.list_session_files():
        for number, session in enumerate(sessions.read(path)):
            if not get_path(session) or (number % 10 and len(sessions.read(path)) > MANY):
                continue
            for policy in sorted(POLICIES):
                for way in WAYS:
                    yield f"{sessions.get_short_name(path)}#{number}|{policy}|{way}", session, policy, way


def record(name: str, session: ParsedSession, policy: str, way: str) -> str:
    """The hashes of one case: the messages sent, the Blocks and Attempts, the prompts; and the statuses."""
    if way == "list":
        return record_list(session, policy)
    model = QuotingModel()
    store = SqliteStore(":memory:")
    place = SessionAddress(store, "s")
    counter = choose_counter(session.info.model or None).counter
    chosen = build_policy(policy, counter)
    stamps = Stamps(ContentIdGenerator(name.encode()).generate, message_time=lambda: None)
    answerer = Answerer(model=model if way == "model" else None)
    opened = Session.create(place, chosen, answerer=answerer, stamps=stamps)
    said = [entry for entry in get_path(session) if isinstance(entry, MessageEntry)]
    statuses = []
    size = max(1, -(-len(said) // PARTS)) if way in WINDOWS else max(1, len(said))
    for start in range(0, len(said), size):
        for entry in said[start : start + size]:
            opened.append(entry.message, usage=entry.usage)
        try:
            if way in WINDOWS:
                outcome = opened.compact(window=WINDOWS[way])
            else:
                outcome = opened.compact(to=max(LEAST_TARGET, opened.conversation.count_uncompacted() // 10))
        except UsageError as exc:
            statuses.append(str(exc))
            continue
        statuses.append(f"{outcome.status}:{outcome.rung}")
    entries = store.read_entries(place.namespace, place.session)
    made = hashlib.sha256()
    for stored in entries:
        if isinstance(stored, Block | Attempt):
            made.update(encode_entry(replace(stored, time=0)))
    messages = opened.view.get_messages()
    encoded = WIRES[_find_wire(messages)].encode(messages)
    sent = hashlib.sha256(b"\n".join(item.raw for item in encoded.items) + repr(encoded.system).encode())
    problems = len(store.verify(place.namespace))
    asked = hashlib.sha256("\n".join(sorted(model.prompts)).encode())  # independent ones are asked in any order
    hashes = (found.hexdigest()[:16] for found in (sent, made, asked))
    parts = (*hashes, ",".join(statuses), problems)
    return " ".join(map(str, parts))


def record_list(session: ParsedSession, policy: str) -> str:
    """The hash of what `tenfold.compact` gives back for the session as a provider's list, and the status."""
    messages = [entry.message for entry in get_path(session) if isinstance(entry, MessageEntry)]
    wire = _find_wire(messages)
    items = [msgspec.json.decode(item.raw) for item in WIRES[wire].encode(messages).items]
    tokens = sum(choose_counter(None).counter.count([str(item) for item in items]))
    result = tenfold.compact(items, to=max(LEAST_TARGET, tokens // 10), policy=policy, format=wire, recall="tool")
    text = json.dumps([result.messages, result.system, result.adjustments], sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {result.outcome.status}:{result.outcome.rung}"


def _find_wire(messages: list[Message]) -> str:
    return next((m.native.format for m in messages if m.native and m.native.format in WIRES), "openai-chat")


def _record_at(index: int) -> tuple[str, str]:
    case = list(iterate_cases())[index]
    return case[0], record(*case)


def record_all() -> dict[str, str]:
    """Every case, on all cores."""
    with ProcessPoolExecutor() as pool:
        return dict(pool.map(_record_at, range(len(list(iterate_cases()))), chunksize=8))


def read_released() -> dict[str, str]:
    """The hashes of 0.1.0."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, str])


def read_changes() -> dict[str, dict[str, str]]:
    """The new hashes of the cases that each change altered. A case may be altered by several."""
    found = msgspec.json.decode(CHANGES.read_bytes(), type=dict[str, dict[str, str]])
    return {name: found.get(name, {}) for name in EXPLAINED}


def read_hashes() -> dict[str, str]:
    """The committed hashes: those of 0.1.0 with every change since."""
    out = read_released()
    for cases in read_changes().values():
        out.update(cases)
    return out


def main() -> None:
    """Compares, or adds what differs to a change with `--write NAME`."""
    new, old = record_all(), read_hashes()
    differing = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    for name in differing:
        print(f"{name}\n  was {old.get(name)}\n  is  {new.get(name)}")
    print(f"{len(new)} cases, {len(differing)} differ")
    if "--write" in sys.argv:
        changes, change = read_changes(), sys.argv[sys.argv.index("--write") + 1]
        changes[change].update((name, new[name]) for name in differing)
        CHANGES.write_bytes(msgspec.json.format(msgspec.json.encode(changes), indent=1) + b"\n")


if __name__ == "__main__":
    main()
