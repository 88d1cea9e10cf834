"""Runs tracegc: its nine fixtures and four probes, with Tenfold beside tracegc's own pipeline and truncations.

A fixture is a list of typed events. The probes are substrings that the text must hold, and others that it must not.
Tenfold gets the events as messages: the first decision is the user's, the others are the agent's, and calls and results
stay calls and results. They are compacted to the size that tracegc's pipeline reaches, in characters, as tracegc
counts.

tracegc keeps the pruned events in a graph beside the text, and its scoring may answer a probe from there. Those rows
are marked "with graph", which is how its own benchmark scores. Tenfold keeps what it left out in the log, one search
away, and gets no credit for that. All other rows are of the text alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from offline import Chat, find_largest, go_offline, print_table
from tracegc import compact_events
from tracegc.benchmark.methods import (
    method_full_history,
    method_truncate_by_event_count,
    method_truncate_by_token_count,
)
from tracegc.benchmark.scoring import check_semantic_equivalence, evaluate_probes

from tenfold.testing.probes.chat_text import get_text

PROBES = ("recall", "artifact", "continuation", "decision")
SIZES = ("short", "medium", "long")
MORE = 2
"""The multiple of tracegc's size in the second row of Tenfold."""
Event = dict[str, Any]


def to_messages(events: Sequence[Event]) -> list[Chat]:
    """Returns the events as a conversation. What an agent sets or gives up becomes something that it says."""
    made: list[Chat] = []
    waiting: list[str] = []
    for event in events:
        match event["type"]:
            case "tool_call":
                function = {"name": event["tool_name"], "arguments": json.dumps(event["arguments"])}
                call = {"id": event["id"], "type": "function", "function": function}
                made.append({"role": "assistant", "content": None, "tool_calls": [call]})
                waiting.append(event["id"])
            case "tool_result" if waiting:
                made.append({"role": "tool", "tool_call_id": waiting.pop(), "content": str(event["result"])})
            case "set_var":
                made.append({"role": "assistant", "content": f"{event['key']} = {event['value']}"})
            case "decision" | "text_chunk":
                role = "assistant" if made else "user"
                made.append({"role": role, "content": event["content"]})
    return made


def join_text(messages: Sequence[Chat]) -> str:
    """Returns a view as the text that the probes read."""
    return "\n".join(get_text(message) for message in messages)


def main() -> None:
    """Prints one row for each method and length: how many of the three fixtures' probes it answers."""
    passed: dict[tuple[str, str], Counter[str]] = {}
    folder = files("tracegc.benchmark") / "fixtures"
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        size = path.name.removesuffix(".json").rpartition("_")[2]
        fixture = json.loads(path.read_text())
        events = [event for event in fixture["events"] if event["type"] != "edge_injection"]
        pipeline = compact_events(events)
        room = len(pipeline["prompt"])
        messages = to_messages(events)
        texts: dict[str, tuple[str | None, Any]] = {
            "full history": (method_full_history(events)[0], None),
            "last 15 events": (method_truncate_by_event_count(events, limit=15)[0], None),
            "last 200 tokens": (method_truncate_by_token_count(events, token_limit=200)[0], None),
            "tracegc, with graph": (pipeline["prompt"], pipeline["graph"]),
            "tracegc, text alone": (pipeline["prompt"], None),
        }
        for name, chars in (("tenfold, same size", room), (f"tenfold, {MORE} times that", MORE * room)):
            made = find_largest(messages, chars // 2, lambda view, chars=chars: len(join_text(view)) <= chars)
            texts[name] = (join_text(made) if made is not None else None, None)
        for name, (text, graph) in texts.items():
            row = passed.setdefault((name, size), Counter())
            row["fixtures"] += 1
            row["unable"] += text is None
            row["chars"] += len(text or "")
            row.update(probe for probe, held in evaluate_probes(text or "", fixture["probes"], graph).items() if held)
            for probe in fixture["probes"].values():
                row["there"] += check_semantic_equivalence(text or "", probe["contains"], [], graph)
                row["not there"] += check_semantic_equivalence(text or "", [], probe["excludes"], graph)
    rows = []
    for (name, size), row in sorted(passed.items(), key=lambda item: (SIZES.index(item[0][1]), item[0][0])):
        cells = [f"{row[probe]}/{row['fixtures']}" for probe in PROBES]
        count = len(PROBES) * row["fixtures"]
        halves = (f"{row['there']}/{count}", f"{row['not there']}/{count}")
        rows.append((size, name, *cells, *halves, f"{row['chars']:,}", str(row["unable"] or "")))
    print(f"tracegc {version('tracegc')}: probes answered, of three fixtures of each length\n")
    halves = ("what must be there is", "what must not is not")
    print_table(("length", "method", *PROBES, *halves, "characters", "could not"), rows)


if __name__ == "__main__":
    go_offline()
    main()
