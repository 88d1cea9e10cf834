"""The preset `sliding`: when it acts, which entries stay, where the conversation is parted, and what stands in view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenfold.designs.threshold import find_safe_split, find_split_index, keep_recent
from tenfold.drive import Answerer
from tenfold.engine import Call
from tenfold.llm import Reply, ScriptedModel
from tenfold.plan.stages.whole import CONTINUED, Kind, entries_since, is_continuation, quoted, safe_split
from tenfold.policies.threshold import sliding
from tenfold.record.message import Message, text_of
from tenfold.session import Session
from tenfold.summarize.edge import with_prompts
from tenfold.summarize.ladder import Settings
from tenfold.transcripts import Recorded
from tenfold.view.rules import check
from tenfold.wire import summary_text
from tests.engine.making import COUNTER, blocks, called, gave, opened, read, said, user
from tests.laws import conversations
from tests.laws.recorded import path_of
from tests.laws.strategies import Log
from tests.presets.simulator import SUMMARY, text
from tests.sessions import needed

WIDE = 200_000
WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


def session(
    messages: Sequence[Message], *replies: Reply | str, max_turns: int = 20, attempts: int = 3
) -> tuple[Session, ScriptedModel]:
    """A session under the preset over these messages, and the model that it asks."""
    model = ScriptedModel(replies or [SUMMARY], repeat=not replies)
    summary = with_prompts(Settings(models=("m",)))
    policy = sliding(COUNTER, summary=summary, max_turns=max_turns, max_compaction_attempts=attempts)
    return opened(messages, policy, answerer=Answerer(model=model)), model


def talk(count: int, *, size: int = 400) -> list[Message]:
    """So many entries of plain words, the user first."""
    return [(user if n % 2 == 0 else said)(f"Entry {n}: {text(size, n)}") for n in range(count)]


def shown(made: Session) -> list[str]:
    """What stands in view: `S` for the summary, `C` for the continuation, the beginning of everything else."""
    out: list[str] = []
    for message in made.view.messages():
        body = text_of(message)
        if is_continuation(message):
            out.append("C")
        else:
            out.append("S" if summary_text(body) is not None else body.partition(":")[0])
    return out


@pytest.mark.spec("threshold.23")
@pytest.mark.parametrize(("max_turns", "kept"), [(20, 6), (30, 9), (10, 3), (5, 3), (0, 6)])
def test_one_entry_more_than_the_window_leaves_three_tenths_of_it(max_turns: int, kept: int) -> None:
    most = max_turns or 20
    assert keep_recent(most) == kept
    made, model = session(talk(most, size=1_500), max_turns=max_turns)
    assert made.compact(window=WIDE).status == "nothing"
    assert not model.asked
    made.append(talk(most + 1, size=1_500)[-1])
    outcome = made.compact(window=WIDE)
    assert outcome.status == "compacted"
    assert f"more than {most} entries" in outcome.reason
    assert shown(made) == ["S", *(f"Entry {n}" for n in range(most + 1 - kept, most + 1)), "C"]
    assert quoted(made.view.messages()[-1]).startswith(f"Entry {most if most % 2 == 0 else most - 1}: ")


@pytest.mark.spec("threshold.23", "threshold.W2")
def test_no_entry_is_ever_neither_summarised_nor_in_view() -> None:
    """In the original the watermark is the length of the log: of 25 entries 19 to 24 are hidden at the next call."""
    model = ScriptedModel([SUMMARY], repeat=True)
    made = opened((), sliding(COUNTER, summary=with_prompts(Settings(models=("m",)))), answerer=Answerer(model=model))
    for number, message in enumerate(talk(70)):
        made.append(message)
        made.compact(window=WIDE)
        told = "".join(ask.prompt for ask in model.asked)
        view = "".join(text_of(m) for m in made.view.messages())
        for each in range(number + 1):
            assert f"Entry {each}: " in told or f"Entry {each}: " in view
        assert f"Entry {number}: " in view, "the newest is in view at the next call as well"
    assert len(model.asked) == 1 + (70 - 21) // 15
    for block in blocks(made):
        covered = block.replacements[0]
        assert covered.kind == "summary"
        assert covered.last < made.view.length - 1


@pytest.mark.spec("threshold.23", "threshold.W6")
def test_entries_are_counted_from_the_newest_summary_on_every_branch() -> None:
    """The original subtracts a number of entries: after a rewind that is negative, and nothing is compacted again."""
    made, _ = session(talk(21))
    made.compact(window=WIDE)
    assert entries_since(made.view, most=100) == 6
    made.append(*talk(14))
    assert entries_since(made.view, most=100) == 20
    assert entries_since(made.view, most=4) == 5
    made.undo()
    assert entries_since(made.view, most=100) == 35
    steps = [m for n in range(4) for m in read(n, "a.py")]
    parallel = [called("x", "look"), gave("x", "1"), called("open", "look")]
    other, _ = session([*steps, *parallel])
    assert entries_since(other.view, most=100) == 11


@pytest.mark.spec("threshold.23")
def test_the_count_needs_no_growth_in_tokens_and_is_quiet_below_it() -> None:
    made, model = session(talk(21))
    assert made.compact(window=WIDE).status == "compacted"
    made.append(*talk(14))
    assert made.compact(window=WIDE).status == "nothing"
    made.append(user("One more."))
    outcome = made.compact(window=WIDE)
    assert outcome.status == "compacted", outcome.reason
    assert len(model.asked) == 2
    assert [m for m in shown(made) if m == "S"] == ["S"], "the earlier summary is taken up in the new one"
    assert shown(made).count("C") == 1, "and the earlier continuation goes with what it followed"


@pytest.mark.spec("threshold.23")
def test_as_long_as_it_is_too_large_fewer_entries_are_kept() -> None:
    sizes = {6: 400, 3: 2_000, 0: 9_000}
    for kept, size in sizes.items():
        made, _ = session([*talk(15), *talk(21, size=size)[15:]])
        outcome = made.compact(window=8_000)
        assert outcome.status == "compacted"
        assert len(shown(made)) == kept + 2
        assert outcome.tokens_after * 2 < 6_400
        assert made.compact(window=8_000).status == "nothing"
    made, _ = session([*talk(15), *talk(21, size=2_000)[15:]], attempts=1)
    made.compact(window=8_000)
    assert len(shown(made)) == 3 + 2, "the fewest are tried before none"


@pytest.mark.spec("threshold.23", "threshold.1")
@pytest.mark.parametrize("reply", [Reply(error="the provider is down"), Reply("")])
def test_a_failed_call_is_no_error_of_the_host(reply: Reply) -> None:
    """The original returns the error, and the request passes through as long as it was."""
    made, _ = session(talk(30), reply)
    outcome = made.compact(window=WIDE)
    assert (outcome.status, outcome.rung) == ("compacted", "mechanical")
    assert "user: Entry 0: " in text_of(made.view.messages()[0])


@pytest.mark.spec("threshold.23", "threshold.24")
def test_the_continuation_follows_what_stays_and_a_step_stays_whole() -> None:
    steps = [m for n in range(3) for m in read(n, f"src/part{n}.py", words=3)]
    made, _ = session([*talk(18), user("Look at the parts."), *steps])
    outcome = made.compact(window=WIDE)
    assert outcome.status == "compacted"
    messages = made.view.messages()
    assert [m.role for m in messages] == ["user", "user", *["assistant", "tool"] * 3, "user"]
    assert text_of(messages[1]) == "Look at the parts."
    (block,) = blocks(made)
    assert [r.kind for r in block.replacements] == ["summary", CONTINUED]
    for wire in WIRES:
        assert check(messages, wire) == []


# -- where it is parted ------------------------------------------------------------------------------------------------

KINDS: dict[str, Kind] = {"t": "text", "c": "call", "r": "result"}


def kinds(letters: str) -> list[Kind]:
    return [KINDS[letter] for letter in letters]


@pytest.mark.spec("threshold.24")
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
    assert safe_split(kinds(entries), index) == expected


@pytest.mark.spec("threshold.24")
@given(st.lists(st.sampled_from(["t", "cr", "crr", "crrr"]), min_size=1, max_size=12), st.integers(-2, 40))
def test_no_split_of_any_conversation_parts_a_pair(parts: list[str], index: int) -> None:
    entries = kinds("".join(parts))
    at = safe_split(entries, index)
    if 0 < at < len(entries):
        assert entries[at] != "result"
    if 0 < index < len(entries):
        assert 0 < at <= len(entries)


@pytest.mark.spec("threshold.25", "threshold.24")
def test_the_tail_by_a_budget_begins_at_a_safe_place() -> None:
    messages = [user("x" * 400), said("y" * 400), called("c", "abcd", "{}"), gave("c", "z" * 400, name="abcd")]
    messages += [said("u" * 400), user("v" * 400)]
    assert find_split_index(messages, 200) == 4
    assert find_split_index(messages, 302) == 1, "a result would be first: back to the words before its call"
    assert find_split_index(messages, 10_000) == 0
    assert find_split_index(messages, 10) == len(messages)
    assert find_safe_split(messages, 3) == 1


# -- any history -------------------------------------------------------------------------------------------------------


def judged(made: Session, window: int) -> None:
    """One compaction: smaller, valid in every wire, one summary and one continuation at most."""
    outcome = made.compact(Call(window=window))
    messages = made.view.messages()
    for wire in WIRES:
        assert check(messages, wire) == []
    if outcome.status != "compacted":
        assert outcome.status in ("nothing", "unsatisfiable")
        return
    assert outcome.tokens_after < outcome.tokens_before
    assert sum(summary_text(text_of(m)) is not None for m in messages if m.origin == "tenfold") == 1
    assert sum(is_continuation(m) for m in messages) == 1
    assert made.compact(Call(window=window)).status == "nothing"


@pytest.mark.spec("threshold.23", "threshold.24")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations.long_logs(), conversations.long_logs(least=3, most=12), st.sampled_from((500, 8_000, WIDE)))
def test_any_history_compacts_by_the_rules(log: Log, more: Log, window: int) -> None:
    summary = with_prompts(Settings(models=("m",)))
    answerer = Answerer(model=ScriptedModel([Reply(SUMMARY)], repeat=True))
    made = conversations.opened(log, sliding(COUNTER, summary=summary, max_turns=8), answerer)
    judged(made, window)
    made.append(*conversations.messages(more))
    judged(made, window)


@pytest.mark.spec("threshold.23", "threshold.24", "threshold.W2")
def test_recorded_sessions_slide(session: Recorded) -> None:
    needed()
    log = path_of(session)
    answerer = Answerer(model=ScriptedModel([Reply(SUMMARY)], repeat=True))
    made = conversations.opened((), sliding(COUNTER, summary=with_prompts(Settings(models=("m",)))), answerer)
    step = max(1, len(log) // 6)
    for start in range(0, len(log), step):
        made.append(*conversations.messages(log[start : start + step]))
        judged(made, WIDE)
