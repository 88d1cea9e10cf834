"""`tiers`: an answer that is no summary leaves what the first two tiers did, and the reason is told."""

from __future__ import annotations

from itertools import cycle, islice

import pytest

from tenfold.config.presets.tiers import tiers
from tenfold.designs.tiers import get_summary
from tenfold.engine.drive import Answerer
from tenfold.llm.scripted_model import ScriptedModel, ScriptedReply
from tenfold.record.ask import Outcome
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.summarize.structure import STRUCTURES
from tenfold.summarize.write import SummarySettings
from tests.engine.making import COUNTER, FILLER, get_blocks, make_reply, make_user_message, open_session
from tests.laws.presets import QUICK
from tests.presets.test_tiers_summary import GOOD, count_total, make_mixed_history

SEVEN = STRUCTURES["seven"]
_WORD_TEXT = """
    marmalade trombone velvet glacier umbrella walrus saffron pyramid harvest lantern meadow orchid penguin quartz
    ribbon sapphire thistle vanilla whisper zeppelin acorn balloon cactus dolphin emerald falcon guitar hammock igloo
    jasmine kettle lemonade mango nectar olive pepper quilt raven sandal tulip violin wagon yacht zebra apricot banjo
    """
"""Words that no conversation of these tests holds."""


def put_under_headings(*texts: str) -> str:
    return "\n".join(f"{heading}\n{texts[at % len(texts)]}\n" for at, heading in enumerate(SEVEN))


def draw_words(count: int) -> str:
    return " ".join(islice(cycle(_WORD_TEXT.split()), count * 7, count * 8))


_FEW = [f"{draw_words(2)}.", f"{draw_words(3)}.", f"{draw_words(4)}.", f"{draw_words(5)}."]
INVALID = {
    "one character": ScriptedReply(text="x"),
    "one character under each heading": ScriptedReply(text=put_under_headings("x")),
    "no heading": ScriptedReply(text=f"The work went on as it had been planned. {FILLER * 3}"),
    "cut off at its length": ScriptedReply(text=GOOD, finish="length"),
    "random words": ScriptedReply(text=draw_words(60)),
    "the same few random words under each heading": ScriptedReply(text=put_under_headings(f"{draw_words(4)}.")),
    "random words under the headings": ScriptedReply(
        text=put_under_headings(*(f"{draw_words(n)}." for n in range(11, 18)))
    ),
    "a few random words under the headings": ScriptedReply(text=put_under_headings(*_FEW, *_FEW[:3])),
    "random words in sentences": ScriptedReply(
        text=put_under_headings(*(f"The {draw_words(n)} is with the {draw_words(n + 1)}." for n in range(9, 16)))
    ),
}


def compact_history(reply: ScriptedReply, history: list[Message] | None = None) -> tuple[Session, Outcome]:
    history = history or make_mixed_history()
    policy = tiers(COUNTER, summary=SummarySettings(models=("small",)))
    model = ScriptedModel([reply], repeat=True)
    session = open_session(history, policy, answerer=Answerer(model=model, retry_rule=QUICK))
    return session, session.compact(to=count_total(history) // 12)


@pytest.mark.spec("tiers.B18", "tiers.D3")
@pytest.mark.parametrize("why", INVALID)
def test_an_answer_that_is_no_summary_keeps_what_the_first_tiers_did(why: str) -> None:
    session, outcome = compact_history(INVALID[why])
    assert outcome.status == "compacted"
    (block,) = get_blocks(session)
    assert {r.kind for r in block.replacements} == {"remove-outputs"}, outcome.notes
    assert block.rung == "none"
    assert SEVEN[0] not in (get_summary(session) or ""), "no heading is filled by code"
    assert any("no model gave a usable summary" in note for note in outcome.notes)


GERMAN = (
    "Bitte prüfe die Rechnungen und ändere die Vorlage für den Versand, damit die Anschrift vollständig erscheint. "
)
ENGLISH = (
    "The invoices were checked.", "The template for shipping shows the complete address now.",
    "Nothing failed on the way.", "The layout of the letters stays as it was before.",
    "They decided against a second column.", "The customer wants short sentences everywhere.",
    "Next, the remaining letters have to be proofread.",
)  # fmt: skip


@pytest.mark.spec("tiers.D3")
def test_a_summary_in_another_language_or_in_a_few_words_is_one() -> None:
    history = make_mixed_history()
    terse = put_under_headings(
        "lib/part1.py, lib/part2.py, lib/part3.py", "run: output text", "work went on as planned"
    )
    session, outcome = compact_history(ScriptedReply(text=terse), history)
    assert outcome.rung == "model", outcome.notes
    german = [(make_user_message if n % 2 == 0 else make_reply)(f"{n}: {GERMAN * 6}") for n in range(60)]
    session, outcome = compact_history(ScriptedReply(text=put_under_headings(*ENGLISH)), german)
    assert outcome.rung == "model", outcome.notes
    assert "proofread" in (get_summary(session) or "")


@pytest.mark.spec("tiers.B10", "tiers.D3")
def test_an_answer_that_the_repair_makes_good_is_used() -> None:
    history = make_mixed_history()
    for first in INVALID.values():
        policy = tiers(COUNTER, summary=SummarySettings(models=("small",)))
        model = ScriptedModel([first, GOOD])
        session = open_session(history, policy, answerer=Answerer(model=model, retry_rule=QUICK))
        outcome = session.compact(to=count_total(history) // 12)
        assert [ask.purpose for ask in model.asks] == ["first", "repair"]
        assert outcome.rung == "model"
        assert "The work goes on as planned." in (get_summary(session) or "")
