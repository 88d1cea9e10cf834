"""Runs the session probes of headroom-ai: which numbers, artifacts and error lines of tool results does a method keep?

The probes are taken from every tool result of the session, old or new, needed later or not. A target counts as retained
if it stands anywhere in the compressed messages. headroom's own `compress` runs beside it, without its text model,
which would be a download, and with its default of four protected messages. Its column "recoverable" counts what lies
behind a marker of headroom's. What Tenfold's search would find again counts as lost here.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from headroom import compress
from headroom.evals.session_probes import DIMENSIONS, run_probes
from offline import Chat, compact_to, get_files, go_offline, print_table

from tenfold.testing.chats import count_total_tokens, read_chats

SHARES = (0.1, 0.2, 0.5)
PROTECTED = 4
LIMIT = 128_000


def run_headroom(messages: Sequence[Chat]) -> list[Chat]:
    """Runs headroom's `compress`, which has no budget."""
    made = compress(
        copy.deepcopy(list(messages)),
        model="gpt-4o",
        model_limit=LIMIT,
        protect_recent=PROTECTED,
        min_tokens_to_compress=1,
        kompress_model="disabled",
    )
    return list(made.messages)


def keep_newest(messages: Sequence[Chat], share: float) -> list[Chat]:
    """Keeps the newest messages that fit, as the baseline for all other figures."""
    room = int(count_total_tokens(messages) * share)
    kept: list[Chat] = []
    for message in reversed(messages):
        room -= count_total_tokens([message])
        if room < 0:
            break
        kept.insert(0, message)
    return kept


def main() -> None:
    """Prints one row for each method: its size, and by dimension what is retained, recoverable, lost."""
    sessions = [conversation.messages for path in get_files() for conversation in read_chats(path)]
    methods: dict[str, Callable[[Sequence[Chat]], list[Chat]]] = {"headroom compress": run_headroom}
    for share in SHARES:
        methods[f"tenfold at {share:.0%}"] = lambda messages, s=share: compact_to(
            messages, int(count_total_tokens(messages) * s)
        )
        methods[f"newest {share:.0%}"] = lambda messages, s=share: keep_newest(messages, s)
    rows = []
    for name, method in methods.items():
        before = after = 0
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "events.jsonl").open("w") as file:
            for number, messages in enumerate(sessions):
                made = method(messages)
                sizes = count_total_tokens(messages), count_total_tokens(made)
                before, after = before + sizes[0], after + sizes[1]
                event = {
                    "request_id": str(number),
                    "original_messages": messages,
                    "compressed_messages": made,
                    "tokens_before": sizes[0],
                    "tokens_after": sizes[1],
                }
                file.write(json.dumps(event) + "\n")
            file.flush()
            found = run_probes(Path(folder)).aggregate()
        cells = [f"{found[d].retained / found[d].total:.1%}, {found[d].recoverable}" for d in DIMENSIONS]
        rows.append((name, f"{after / before:.1%}", *cells))
    totals = ", ".join(f"{found[d].total} {d}" for d in DIMENSIONS)
    print(f"headroom-ai {version('headroom-ai')}: {len(sessions)} sessions, {totals}")
    print("Share retained, and how many of the others are recoverable\n")
    print_table(("method", "size", *DIMENSIONS), rows)


if __name__ == "__main__":
    go_offline()
    main()
