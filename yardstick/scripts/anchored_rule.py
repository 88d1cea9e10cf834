"""Holds the rule of the typed probes against what models really recalled after a compaction.

    git clone https://github.com/profff/lost-in-compaction
    python -m yardstick.scripts.anchored_rule lost-in-compaction

Those runs compacted conversations with known facts in them, asked a model for each, and had its answers judged. For
every fact this looks whether the compacted context shows it: by the words of the answer anywhere (bare), and by the
rule of `tenfold.testing.probes`, with the question's words as the anchor. Nothing is downloaded and no model is called.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tenfold.testing.probes import ChatMessage, IndexedView, Probe, judge
from tenfold.testing.probes.kinds import build_terms, find_content_words
from tenfold_yardstick.scores import has_bare_words


class _Fact(Struct):
    fact_id: str
    question: str
    keywords: list[str]
    compacted: bool = False


class _Meta(Struct):
    facts: list[_Fact]


class _Verdict(Struct):
    fact_id: str
    recalled: bool


class _Batch(Struct):
    verdicts: list[_Verdict] = []


class _Judgments(Struct):
    batches: list[_Batch]


class FactVerdict(NamedTuple):
    """One fact in one context: the verdicts of both tests, and in which share of the runs a model recalled the fact."""

    bare: bool
    anchored: bool
    recalled: float
    compacted: bool


def read_contexts(root: Path) -> list[list[FactVerdict]]:
    """Returns every compacted context of the runs as its facts."""
    found = sorted(p for p in root.glob("compaction_v5_*/contexts/*.json") if not p.stem.endswith("_meta"))
    return [_read_context(path) for path in found]


def _read_context(path: Path) -> list[FactVerdict]:
    view = IndexedView(msgspec.json.decode(path.read_bytes(), type=list[ChatMessage]))
    facts = msgspec.json.decode(path.with_name(f"{path.stem}_meta.json").read_bytes(), type=_Meta).facts
    runs: dict[str, list[bool]] = {}
    for judged in path.parent.with_name("judgments").glob(f"{path.stem}_bs*.json"):
        for batch in msgspec.json.decode(judged.read_bytes(), type=_Judgments).batches:
            for verdict in batch.verdicts:
                runs.setdefault(verdict.fact_id, []).append(verdict.recalled)
    out = []
    for fact in facts:
        if fact.fact_id in runs:
            answer = list(dict.fromkeys(w for keyword in fact.keywords for w in [keyword.lower().strip()] if w))
            anchor = [w for w in find_content_words(fact.question) if w not in answer]
            probe = Probe("identifier", 0, fact.question, build_terms(answer), build_terms(anchor))
            shown = judge(probe, view) == "present"
            out.append(
                FactVerdict(has_bare_words(probe, view), shown, statistics.mean(runs[fact.fact_id]), fact.compacted)
            )
    return out


def format_report(cells: Sequence[Sequence[FactVerdict]]) -> str:
    """Formats how far both tests agree with the models' recall."""
    facts = [fact for cell in cells for fact in cell]
    lost = [fact for fact in facts if fact.compacted]
    recalled = statistics.mean(f.recalled for f in lost)
    lines = [f"{len(cells)} contexts, {len(facts):,} facts; compacted facts recalled: {recalled:.2f}"]
    for name in ("bare", "anchored"):
        said = [float(getattr(f, name)) for f in facts]
        alone = statistics.correlation(said, [f.recalled for f in facts])
        means = [statistics.mean(getattr(f, name) for f in cell) for cell in cells]
        together = statistics.correlation(means, [statistics.mean(f.recalled for f in cell) for cell in cells])
        shown = statistics.mean(getattr(f, name) for f in lost)
        lines.append(f"{name}: r {alone:.2f} per fact, {together:.2f} per context; compacted facts shown: {shown:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("clone", type=Path, help="a clone of github.com/profff/lost-in-compaction")
    found = read_contexts(parser.parse_args().clone)
    print(format_report(found) if found else "no folder compaction_v5_* with contexts is there")
