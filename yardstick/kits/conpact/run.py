"""Runs conpact (COMPINT, "Lost in Compaction"): is a side constraint still there after a compaction?

The paper downloads its histories, and its judge and its probe are models. Here its 15 constraints are placed in
recorded sessions at its three places, its own pipeline runs (`build_instances`, `evaluate` with `retention_only`), and
a rule judges. The rule answers YES if the constraint stands in the compacted context word for word, or if all its
content words stand within 600 characters. That is stricter than a model, which also accepts a paraphrase, and it costs
nothing.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from conpact import SCS, Endpoint, RecentN, build_instances, evaluate
from offline import Chat, compact_to, get_files, go_offline, print_table

from tenfold.testing.chats import count_message_tokens, read_chats
from tenfold.testing.probes import IndexedView
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import build_terms, find_content_words
from tenfold.testing.probes.presence import has_answer

POSITIONS = ("top", "middle", "bottom")
SHARES = (0.05, 0.1)
"""The shares of a session that are kept."""
TAIL = 5
"""How many messages the paper's baseline keeps."""


@dataclass(frozen=True)
class Rule(Endpoint):
    """The judge: an endpoint whose client reads the kit's own prompt and answers by a rule."""

    model: str = "a rule"

    def client(self) -> Any:
        """Returns what the kit calls instead of a provider's client."""
        return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=self.create)))

    def create(self, *, model: str, messages: Sequence[Chat]) -> Any:
        """Returns YES or NO in the shape of a model's answer."""
        del model
        constraint, _, context = messages[1]["content"].partition("[Compacted Context]")
        constraint = constraint.replace("[Injected SSSC]", "").strip()
        said = is_retained(constraint, context)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="YES" if said else "NO"))])


def is_retained(constraint: str, context: str) -> bool:
    """Whether the constraint is stated: unchanged, or with all its content words near each other."""
    if " ".join(constraint.lower().split()) in " ".join(context.lower().split()):
        return True
    return has_answer(
        IndexedView([{"role": "user", "content": context}]), build_terms(find_content_words(constraint)), ()
    )


def build_haystacks() -> list[dict[str, Any]]:
    """Returns recorded sessions as the kit's haystacks. Messages without content get an empty one."""
    found = []
    for path in get_files():
        for session in read_chats(path):
            messages = [{**m, "content": m.get("content") or ""} for m in session.messages]
            found.append(
                {
                    "haystack_id": session.name,
                    "source": session.name,
                    "messages": messages,
                    "message_tokens": count_message_tokens(session.messages),
                    "system_prompt": "",
                    "source_conversation_count": 1,
                }
            )
    return found


def build_compactor(share: float) -> Callable[[list[Chat]], list[Chat]]:
    """Returns Tenfold, compacting to a share of the session, as the kit's compactor."""

    def run(messages: list[Chat]) -> list[Chat]:
        made = compact_to(messages, int(sum(count_message_tokens(messages)) * share))
        return [{"role": m["role"], "content": get_text(m)} for m in made]

    return run


def main() -> None:
    """Prints one row for each compactor, with a column for each place."""
    sources = build_haystacks()
    longest = max(sum(each["message_tokens"]) for each in sources)
    rows = []
    compactors: dict[str, Callable[[list[Chat]], list[Chat]]] = {f"recent-{TAIL} (the kit's)": RecentN(TAIL)}
    compactors |= {f"tenfold at {share:.0%}": build_compactor(share) for share in SHARES}
    for name, compactor in compactors.items():
        cells = []
        for position in POSITIONS:
            instances = build_instances(sources, length=longest, position=position)
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):  # progress bars
                found = evaluate(instances, compactor, out_dir=folder, judge=Rule(), retention_only=True, workers=2,
                                 compact_workers=2)  # fmt: skip
            every = [row for row in found if row["sc_type"] == "all"]
            kept = sum(row["retention_rate_pct"] * row["n"] for row in every) / sum(row["n"] for row in every)
            cells.append(f"{kept:.1f} %")
        rows.append((name, *cells))
    print(f"conpact {version('conpact')}: retention of {len(SCS)} constraints in each of {len(sources)} sessions\n")
    print_table(("compactor", *POSITIONS), rows)


if __name__ == "__main__":
    go_offline()
    main()
