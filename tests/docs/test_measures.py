"""The page that defines the measures names what the code measures, with the code's own figures."""

from __future__ import annotations

import re

import pytest

from tenfold.config.policies import POLICIES
from tenfold.recall import tools
from tenfold.store.base import HIT_LIMIT
from tenfold.testing import identifier_finder, validity
from tenfold.testing.probes import PROBE_KINDS, planted_rules, presence
from tenfold_yardstick import asked_sessions, bill, cases, future_recall, gates, gold_answers, players, quality, speed
from tenfold_yardstick.commands.eval_commands import app
from tenfold_yardstick.methods import ALL, get_methods
from tenfold_yardstick.players import MODEL_SUFFIX, get_player_factories
from tenfold_yardstick.quality_report import REAL_SUMMARY
from tests.docs.commands import build_page
from tests.shape.scan import ROOT
from tests.yardstick.yardsticks import make_yardstick
from yardstick.scripts.measure import render_document

TEXT = (ROOT / "docs" / "measures.md").read_text("utf-8")
PLAIN = " ".join(TEXT.split())


@pytest.mark.parametrize("name", [*PROBE_KINDS, *validity.GATES, *identifier_finder.IDENTIFIER_KINDS])
def test_every_kind_and_gate_is_defined(name: str) -> None:
    assert f"| `{name}` |" in TEXT


@pytest.mark.parametrize(
    "said",
    [
        f"{future_recall.TOLERANCE - 1:.0%} over".replace("%", " %"),
        f"the {HIT_LIMIT} best hits",
        f"at most {tools.SEARCH_BUDGET:,} tokens",
        f"{identifier_finder.MIN_LENGTH} to {identifier_finder.MAX_LENGTH} characters",
        f"window of {presence.WINDOW} characters",
        f"a tenth of at least {quality.MIN_TENTH:,} tokens",
        f"{players.PREFIX_TOKENS:,} tokens of system prompt",
        f"first {bill.MIN_CACHEABLE_TOKENS:,} tokens",
        f"at {players.TRIGGER_SHARE:.0%}".replace("%", " %"),
        f"{gold_answers.GOLD_BUDGET:,} tokens",
        f"{gates.LEAST_SUMMARY} tokens of summary",
        f"{asked_sessions.MIN_ANSWER_LENGTH} characters",
        f"up to {speed.COMPARISON_LENGTH:,} messages",
        f"median of {speed.TURN_LIMITS[0]} to {speed.TURN_LIMITS[1]} turns",
        f"{cases.CUT_SHARES[0]:.0%} and {cases.CUT_SHARES[1]:.0%}".replace("%", " %"),
        ", ".join(f"{share:.0%}".replace("%", " %") for _, share in planted_rules.PLACES[:2]),
    ],
)
def test_figures_are_those_of_the_code(said: str) -> None:
    assert said in PLAIN


def test_readers_are_led_there() -> None:
    assert "docs/compare.md" in (ROOT / "README.md").read_text("utf-8")
    assert "(measures.md)" in (ROOT / "docs" / "compare.md").read_text("utf-8")
    assert "(measures.md)" in render_document(make_yardstick(), ()).split("## ")[0]
    assert "docs/measures.md" in build_page().split("## tenfold eval quality")[1].split("## ")[0]
    assert "docs/measures.md" in str(app.info.help)


def test_every_method_is_explained_and_no_other() -> None:
    section = TEXT.split("\n## Methods\n")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    names = {method.name for method in get_methods([ALL])} | {REAL_SUMMARY, *get_player_factories([ALL])}
    written = {name for name in names if name.endswith(MODEL_SUFFIX)}
    assert {name.removesuffix(MODEL_SUFFIX) for name in written} == set(POLICIES)
    assert sorted(explained) == sorted({*(names - written), f"POLICY{MODEL_SUFFIX}", "PROJECT/METHOD"})
