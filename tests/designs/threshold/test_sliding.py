"""The preset `sliding`: when it acts, which entries stay, where the conversation is parted, and what stands in view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenfold.compaction.plan.protected import extract_request, is_continuation
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.core.record.message import Message, get_text
from tenfold.core.view.rules import check_messages
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.threshold import compute_keep_recent, find_safe_split, find_split_index
from tenfold.designs.threshold.policy import sliding
from tenfold.designs.threshold.stages import CONTINUATION_KIND
from tenfold.designs.threshold.trigger import EntryKind, count_entries_since, find_entry_split
from tenfold.models import ScriptedModel, ScriptedReply
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.designs.threshold.simulator import SUMMARY, make_text
from tests.engine.making import (
    COUNTER,
    get_blocks,
    make_call,
    make_read_step,
    make_reply,
    make_result,
    make_user_message,
    open_session,
)

WIDE = 200_000
WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


def make_scripted_session(
    messages: Sequence[Message], *replies: ScriptedReply | str, max_turns: int = 20, attempts: int = 3
) -> tuple[Session, ScriptedModel]:
    """A session under the preset over these messages, and the model that it asks."""
    model = ScriptedModel(replies or [SUMMARY], repeat=not replies)
    summary = with_prompts(SummarySettings(models=("m",)))
    policy = sliding(COUNTER, summary=summary, max_turns=max_turns, max_compaction_attempts=attempts)
    return open_session(messages, policy, answerer=Answerer(model=model)), model


def make_talk(count: int, *, size: int = 400) -> list[Message]:
    """So many entries of plain words, the user first."""
    return [(make_user_message if n % 2 == 0 else make_reply)(f"Entry {n}: {make_text(size, n)}") for n in range(count)]


def describe_view(made: Session) -> list[str]:
    """What stands in view: `S` for the summary, `C` for the continuation, the beginning of everything else."""
    out: list[str] = []
    for message in made.view.get_messages():
        body = get_text(message)
        if is_continuation(message):
            out.append("C")
        else:
            out.append("S" if extract_summary_text(body) is not None else body.partition(":")[0])
    return out


@pytest.mark.parametrize(("max_turns", "kept"), [(20, 6), (30, 9), (10, 3), (5, 3), (0, 6)])
def test_one_entry_more_than_the_window_leaves_three_tenths_of_it(max_turns: int, kept: int) -> None:
    most = max_turns or 20
    assert compute_keep_recent(most) == kept
    made, model = make_scripted_session(make_talk(most, size=1_500), max_turns=max_turns)
    assert made.compact(window=WIDE).status == "nothing"
    assert not model.asks
    made.append(make_talk(most + 1, size=1_500)[-1])
    outcome = made.compact(window=WIDE)
    assert outcome.status == "compacted"
    assert f"more than {most} entries" in outcome.reason
    assert describe_view(made) == ["S", *(f"Entry {n}" for n in range(most + 1 - kept, most + 1)), "C"]
    assert extract_request(made.view.get_messages()[-1]).startswith(f"Entry {most if most % 2 == 0 else most - 1}: ")


def test_no_entry_is_ever_neither_summarised_nor_in_view() -> None:
    """In the original the watermark is the length of the log: of 25 entries 19 to 24 are hidden at the next call."""
    model = ScriptedModel([SUMMARY], repeat=True)
    made = open_session(
        (), sliding(COUNTER, summary=with_prompts(SummarySettings(models=("m",)))), answerer=Answerer(model=model)
    )
    for number, message in enumerate(make_talk(70)):
        made.append(message)
        made.compact(window=WIDE)
        told = "".join(ask.prompt for ask in model.asks)
        view = "".join(get_text(m) for m in made.view.get_messages())
        for each in range(number + 1):
            assert f"Entry {each}: " in told or f"Entry {each}: " in view
        assert f"Entry {number}: " in view, "the newest is in view at the next call as well"
    assert len(model.asks) == 1 + (70 - 21) // 15
    for block in get_blocks(made):
        covered = block.replacements[0]
        assert covered.kind == "summary"
        assert covered.last < made.view.length - 1


def test_entries_are_counted_from_the_newest_summary_on_every_branch() -> None:
    """The original subtracts a number of entries: after a rewind that is negative, and nothing is compacted again."""
    made, _ = make_scripted_session(make_talk(21))
    made.compact(window=WIDE)
    assert count_entries_since(made.view, limit=100) == 6
    made.append(*make_talk(14))
    assert count_entries_since(made.view, limit=100) == 20
    assert count_entries_since(made.view, limit=4) == 5
    made.undo()
    assert count_entries_since(made.view, limit=100) == 35
    steps = [m for n in range(4) for m in make_read_step(n, "a.py")]
    parallel = [make_call("x", "look"), make_result("x", "1"), make_call("open", "look")]
    other, _ = make_scripted_session([*steps, *parallel])
    assert count_entries_since(other.view, limit=100) == 11


def test_the_count_needs_no_growth_in_tokens_and_is_quiet_below_it() -> None:
    made, model = make_scripted_session(make_talk(21))
    assert made.compact(window=WIDE).status == "compacted"
    made.append(*make_talk(14))
    assert made.compact(window=WIDE).status == "nothing"
    made.append(make_user_message("One more."))
    outcome = made.compact(window=WIDE)
    assert outcome.status == "compacted", outcome.reason
    assert len(model.asks) == 2
    assert [m for m in describe_view(made) if m == "S"] == ["S"], "the earlier summary is taken up in the new one"
    assert describe_view(made).count("C") == 1, "and the earlier continuation goes with what it followed"


def test_as_long_as_it_is_too_large_fewer_entries_are_kept() -> None:
    sizes = {6: 400, 3: 2_000, 0: 9_000}
    for kept, size in sizes.items():
        made, _ = make_scripted_session([*make_talk(15), *make_talk(21, size=size)[15:]])
        outcome = made.compact(window=8_000)
        assert outcome.status == "compacted"
        assert len(describe_view(made)) == kept + 2
        assert outcome.tokens_after < 6_400
        assert made.compact(window=8_000).status == "nothing"
    made, _ = make_scripted_session([*make_talk(15), *make_talk(21, size=2_000)[15:]], attempts=1)
    made.compact(window=8_000)
    assert len(describe_view(made)) == 3 + 2, "the fewest are tried before none"


@pytest.mark.parametrize("reply", [ScriptedReply(error="the provider is down"), ScriptedReply("")])
def test_a_failed_call_is_no_error_of_the_host(reply: ScriptedReply) -> None:
    """The original returns the error, and the request passes through as long as it was."""
    made, _ = make_scripted_session(make_talk(30), reply)
    outcome = made.compact(window=WIDE)
    assert (outcome.status, outcome.rung) == ("compacted", "mechanical")
    assert "user: Entry 0: " in get_text(made.view.get_messages()[0])


def test_the_continuation_follows_what_stays_and_a_step_stays_whole() -> None:
    steps = [m for n in range(3) for m in make_read_step(n, f"src/part{n}.py", words=3)]
    made, _ = make_scripted_session([*make_talk(18), make_user_message("Look at the parts."), *steps])
    outcome = made.compact(window=WIDE)
    assert outcome.status == "compacted"
    messages = made.view.get_messages()
    assert [m.role for m in messages] == ["user", "user", *["assistant", "tool"] * 3, "user"]
    assert get_text(messages[1]) == "Look at the parts."
    (block,) = get_blocks(made)
    assert [r.kind for r in block.replacements] == ["summary", CONTINUATION_KIND]
    for wire in WIRES:
        assert check_messages(messages, wire) == []


# -- where it is parted ------------------------------------------------------------------------------------------------

KINDS: dict[str, EntryKind] = {"t": "text", "c": "call", "r": "result"}


def parse_kinds(letters: str) -> list[EntryKind]:
    return [KINDS[letter] for letter in letters]


@pytest.mark.parametrize(
    ("entries", "index", "expected"),
    [
        ("ttcrtt", 3, 1),
        ("ttcrtt", 2, 1),
        ("ttcrtt", 4, 4),
        ("ttcrtt", 0, 0),
        ("ttcrtt", 6, 6),
        ("ttcrtt", -1, -1),
        ("ttcrtt", 9, 9),
        ("crcrcr", 2, 4),
        ("crcrcr", 3, 4),
        ("crrcrrcrr", 4, 6),
        ("tcrcr", 2, 3),
        ("crcrcr", 5, 4),
        ("crcrcr", 4, 4),
        ("cr", 1, 2),
    ],
)
def test_a_split_is_where_no_result_loses_its_call(entries: str, index: int, expected: int) -> None:
    """In the original a place inside the last pair of a conversation of tools alone is taken, and parts the pair."""
    assert find_entry_split(parse_kinds(entries), index) == expected


def test_the_tail_by_a_budget_begins_at_a_safe_place() -> None:
    messages = [
        make_user_message("x" * 400),
        make_reply("y" * 400),
        make_call("c", "abcd", "{}"),
        make_result("c", "z" * 400, name="abcd"),
    ]
    messages += [make_reply("u" * 400), make_user_message("v" * 400)]
    assert find_split_index(messages, 200) == 4
    assert find_split_index(messages, 302) == 1, "a result would be first: back to the words before its call"
    assert find_split_index(messages, 10_000) == 0
    assert find_split_index(messages, 10) == len(messages)
    assert find_safe_split(messages, 3) == 1


# -- any history -------------------------------------------------------------------------------------------------------
