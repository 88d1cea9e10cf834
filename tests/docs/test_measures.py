"""The page that defines the measures names what the code measures, with the code's own figures."""

from __future__ import annotations

import re

import pytest

from scripts.yardstick import document
from tenfold.cli.evaluating import app
from tenfold.evals import bill, cases, future, gold, identifiers, players, quality, searching, speed, validity
from tenfold.evals.methods import ALL, methods
from tenfold.evals.players import WRITTEN, starts
from tenfold.evals.probes import KINDS, anchored, planted
from tenfold.evals.report import REAL
from tenfold.policies import POLICIES
from tenfold.recall import tools
from tests.docs.commands import page
from tests.evals.yardsticks import yardstick
from tests.shape.scan import ROOT

TEXT = (ROOT / "docs" / "measures.md").read_text("utf-8")
PLAIN = " ".join(TEXT.split())


@pytest.mark.parametrize("name", [*KINDS, *validity.GATES, *identifiers.KINDS])
def test_every_kind_and_gate_is_defined(name: str) -> None:
    assert f"| `{name}` |" in TEXT


@pytest.mark.parametrize(
    "said",
    [
        f"{future.TOLERANCE - 1:.0%} over".replace("%", " %"),
        f"the {tools.HITS} best hits",
        f"at most {tools.FOUND:,} tokens",
        f"{identifiers.SHORTEST} to {identifiers.LONGEST} characters",
        f"window of {anchored.WINDOW} characters",
        f"a tenth of at least {quality.LEAST:,} tokens",
        f"{players.PREFIX:,} tokens of system prompt",
        f"first {bill.CACHEABLE:,} tokens",
        f"at {players.ACT:.0%}".replace("%", " %"),
        f"{gold.BUDGET:,} tokens",
        f"{validity.LEAST_SUMMARY} tokens of summary",
        f"{searching.SHORTEST} characters",
        f"up to {speed.MIDDLE:,} messages",
        f"median of {speed.TURNS[0]} to {speed.TURNS[1]} turns",
        f"{cases.SHARES[0]:.0%} and {cases.SHARES[1]:.0%}".replace("%", " %"),
        ", ".join(f"{share:.0%}".replace("%", " %") for _, share in planted.PLACES[:2]),
    ],
)
def test_figures_are_those_of_the_code(said: str) -> None:
    assert said in PLAIN


def test_readers_are_led_there() -> None:
    assert "docs/measures.md" in (ROOT / "README.md").read_text("utf-8").split("## How it compares")[1].split("## ")[0]
    assert "(measures.md)" in document(yardstick(), {}).split("## ")[0]
    assert "docs/measures.md" in page().split("## tenfold eval quality")[1].split("## ")[0]
    assert "docs/measures.md" in str(app.info.help)


def test_every_method_is_explained_and_no_other() -> None:
    section = TEXT.split("\n## Methods\n")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    names = {method.name for method in methods([ALL])} | {REAL, *starts([ALL])}
    written = {name for name in names if name.endswith(WRITTEN)}
    assert {name.removesuffix(WRITTEN) for name in written} == set(POLICIES)
    assert sorted(explained) == sorted({*(names - written), f"POLICY{WRITTEN}", "PROJECT/METHOD"})
