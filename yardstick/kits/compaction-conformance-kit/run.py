"""Runs the budget benchmark of compaction-conformance-kit, with Tenfold beside the kit's own reference compactors.

*Survival* can be gamed: the canaries are lines such as "SAFETY RULE: ...", and a compactor that copies lines with these
labels gets 100 % without understanding the conversation. *Resolved* asks whether a rule that was later said in other
words is held in its newest form only. *Stale* counts the old values that are still in the text. A view that keeps the
user's words unchanged, old and new, has both by design.

The kit's sessions are about 8,000 characters long, and a fifth of that are rules. The second table therefore places the
same statements, in the same order, in recorded sessions of a hundred thousand characters and more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from compaction_kit.benchmark import run_budget_benchmark
from compaction_kit.canaries import Canary
from compaction_kit.cli import COMPACTORS
from compaction_kit.compacted import CompactedContext
from compaction_kit.corpus import build_random_session
from compaction_kit.runner import RoundResult, run_conformance
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import SeededSession, Turn
from compaction_kit.versioning import kit_version
from offline import Chat, find_largest, get_files, go_offline, print_table

from tenfold.testing.probes.chat_text import get_text
from tenfold_yardstick.cases import read_sessions

BUDGETS = (0.1, 0.2, 0.3, 0.5)
SEEDS = tuple(range(1, 13))
ROUNDS = 5
LONG_BUDGET, LONG_SEEDS = 0.1, (1, 2, 3)
COLUMNS = (
    "survival",
    "stale of restated",
    "newest of paraphrased",
    "resolved",
    "stale of paraphrased",
    "distinct pairs",
    "size",
)
BYTES_A_TOKEN = 4
"""Characters per token, used for the first size that is tried.

English has about this many; too large a try is repeated.
"""
SHARE = 0.3
"""The budget as a share of the text, if the kit names none."""


def format_view(messages: list[Chat]) -> str:
    """Returns a view as the one text that the kit measures and probes."""
    return "\n".join(f"[{message['role']}] {get_text(message)}" for message in messages)


class Tenfold:
    """Tenfold as the kit's compactor. It takes a text that it made itself as the messages that the text stands for.

    Nothing is said between the kit's rounds, so from the second round on a view that already fits is left unchanged.
    """

    name = "tenfold"

    def __init__(self, messages: list[Chat] | None = None) -> None:
        """Creates a compactor for one session. `messages` are the session's own messages, if the kit only has texts."""
        self._messages = messages
        self._views: dict[str, list[Chat]] = {}

    def compact(self, turns: list[Turn], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
        """Compacts once to at most `budget_chars`.

        If that is impossible, returns the text unchanged, which is over budget.
        """
        text = "\n".join(f"[{turn.role}] {turn.text}" for turn in turns)
        own = self._views.get(turns[0].text) if len(turns) == 1 else None
        given = own or self._messages or [{"role": turn.role, "content": turn.text} for turn in turns]
        budget = budget_chars or int(len(text) * SHARE)
        made = find_largest(given, budget // BYTES_A_TOKEN, lambda view: len(format_view(view)) <= budget)
        shown = format_view(made) if made is not None else text
        self._views[shown] = made if made is not None else given
        return CompactedContext(shown, self.name, round_num)


def print_own_table() -> None:
    """Prints the kit's benchmark as it is."""
    factories = {"tenfold": Tenfold} | COMPACTORS
    found = run_budget_benchmark(factories, BUDGETS, SEEDS, ROUNDS)
    rows = []
    for entry in found["entries"]:
        semantic, plain = entry["semantic"], entry["randomized"]["supersession"]
        conflicts = semantic["conflicts"]
        rows.append(
            (
                f"{entry['budget_fraction']:.0%}",
                entry["compactor"],
                f"{entry['randomized']['overall_final_survival']:.1%}",
                f"{plain['stale']}/{plain['n']}",
                f"{conflicts['latest']}/{conflicts['n']}",
                f"{semantic['resolved_rate']:.1%}",
                f"{conflicts['stale']}/{conflicts['n']}",
                f"{semantic['distinct_pair_rate']:.1%}",
                f"{entry['mean_final_output_ratio']:.0%}" + ("" if entry["budget_compliant"] else " over"),
            )
        )
    print(f"Its own sessions, seeds {SEEDS[0]}-{SEEDS[-1]}, {ROUNDS} rounds; budget in characters\n")
    print_table(("budget", "compactor", *COLUMNS), rows)


def mix_into_session(recorded: Sequence[Chat], turns: Sequence[Turn], legal_cuts: Sequence[int]) -> list[Chat]:
    """Adds the kit's exchanges to a recorded session, spread evenly over the places where no call is open."""
    pairs = [turns[i : i + 2] for i in range(1, len(turns), 2)]  # the first is the kit's system prompt
    places = [legal_cuts[number * len(legal_cuts) // len(pairs)] for number in range(len(pairs))]
    messages: list[Chat] = []
    for index, message in enumerate(recorded):
        for place, pair in zip(places, pairs, strict=True):
            if place == index:
                messages += [{"role": turn.role, "content": turn.text} for turn in pair]
        messages.append(message)
    return messages


def print_long_table(files: Sequence[Path]) -> None:
    """Prints the kit's statements and probes in recorded sessions, after one compaction."""
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("tenfold", *COMPACTORS)}
    sessions = [conversation for path in files for conversation in read_sessions(path)]
    for conversation in sessions:
        for seed in LONG_SEEDS:
            random_session, canaries = build_random_session(seed)
            suites = [(random_session, canaries, [c.id for c in canaries if c.superseded_tokens], [])]
            for build in (build_semantic_session, build_semantic_heldout_session):
                session, held, meta = build(seed)
                suites.append((session, held, meta["conflicts"], meta["distinct_pairs"]))
            for number, (session, held, updated, pairs) in enumerate(suites):
                messages = mix_into_session(conversation.messages, session.transcript(), conversation.legal_cuts)
                turns = tuple(Turn(str(m["role"]), get_text(m)) for m in messages)
                for name, row in totals.items():
                    made = Tenfold(messages) if name == "tenfold" else COMPACTORS[name]()
                    run = run_conformance(SeededSession(turns, {}), made, 1, held, budget_fraction=LONG_BUDGET)
                    add_counts(row, run.rounds[-1], held, updated, pairs, kind="plain" if number == 0 else "semantic")
    rows = []
    for name, row in totals.items():
        rows.append(
            (
                f"{LONG_BUDGET:.0%}",
                name,
                f"{row['survived'] / row['asked']:.1%}",
                f"{row['plain stale']}/{row['plain']}",
                f"{row['semantic latest']}/{row['semantic']}",
                f"{row['resolved'] / row['semantic']:.1%}",
                f"{row['semantic stale']}/{row['semantic']}",
                f"{row['pairs held'] / row['pairs']:.1%}",
                f"{row['chars'] / row['chars before']:.0%}" + (" over" if row["over"] else ""),
            )
        )
    print(f"\nThe same in {len(sessions)} recorded sessions, seeds {LONG_SEEDS[0]}-{LONG_SEEDS[-1]}, one compaction\n")
    print_table(("budget", "compactor", *COLUMNS), rows)


def add_counts(
    row: Counter[str],
    result: RoundResult,
    canaries: Sequence[Canary],
    updated: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    *,
    kind: str,
) -> None:
    """Adds what one compaction kept, by the kit's own rules."""
    text = result.context.text.lower()
    if kind == "plain":
        row["asked"] += len(canaries)
        row["survived"] += sum(result.survived.values())
    for canary in canaries:
        if canary.id in updated:
            latest = all(token.lower() in text for token in canary.required_tokens)
            stale = any(token.lower() in text for token in canary.superseded_tokens)
            row[kind] += 1
            row[f"{kind} latest"] += latest
            row[f"{kind} stale"] += stale
            row["resolved"] += latest and not stale and kind == "semantic"
    row["pairs"] += len(pairs)
    row["pairs held"] += sum(result.survived[a] and result.survived[b] for a, b in pairs)
    row["chars"] += result.output_chars
    row["chars before"] += result.input_chars
    row["over"] += not result.within_budget


if __name__ == "__main__":
    go_offline()
    print(f"compaction-conformance-kit {kit_version()}\n")
    print_own_table()
    print_long_table(get_files())
