"""`tiers`: the first two tiers, where they stop, and what they leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.plan.stubs import REMOVED_PREFIX
from tenfold.core.meter.counters import BytePairCounter, Counter, measure_messages
from tenfold.core.record.message import Image, Message, Text, ToolResult, get_text, get_tool_result
from tenfold.core.record.token_reading import Counted
from tenfold.designs.tiers import CompactionConfig, prune_messages
from tenfold.designs.tiers.policy import tiers
from tenfold.session import Session
from tests.designs.tiers.making import COUNTER, count_total
from tests.engine.making import (
    FILLER,
    encode_message,
    get_blocks,
    make_call,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
)

NUMBERED = "\n".join(f"line {n} of the output" for n in range(500))
"""500 lines: about 2,700 tokens."""
WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


def make_bash_steps(count: int, text: str = NUMBERED, *, error: bool = False) -> list[Message]:
    out = [make_user_message("Find out why it fails.")]
    for n in range(count):
        out += [
            make_call(f"c{n}", "bash", f'{{"command": "run {n}"}}'),
            make_result(f"c{n}", text, error=error, name="bash"),
        ]
    return [*out, make_reply("That is all.")]


def get_outputs(session: Session) -> list[str]:
    return [get_text(m) for m in session.view.get_messages() if m.role == "tool"]


def test_500_lines_become_25_a_marker_with_450_and_25() -> None:
    history = make_bash_steps(1, NUMBERED + "\n" + NUMBERED)
    session = open_session(make_bash_steps(3), tiers(COUNTER))
    session.compact(to=count_total(session.view.get_messages()) - 100)
    rows = NUMBERED.split("\n")
    for text in get_outputs(session):
        shown = text.split("\n")
        assert shown[:25] == rows[:25]
        assert shown[25] == "[... 450 lines dropped ...]"
        assert shown[26:] == rows[-25:]
    longer = open_session(history, tiers(COUNTER))
    longer.compact(to=1_000)
    assert "[... 950 lines dropped ...]" in get_outputs(longer)[0]


@pytest.mark.parametrize(("keep", "side"), [(250, 25), (100, 10), (1_000, 100), (10, 5)])
def test_the_lines_of_a_side_are_a_tenth_of_the_kept_tokens_and_at_least_five(keep: int, side: int) -> None:
    short = "\n".join(f"{n}" for n in range(4_000))
    session = open_session(
        make_bash_steps(1, short), tiers(COUNTER, truncate_keep_tokens=keep, max_tool_output_tokens=1_000)
    )
    session.compact(to=900)
    head, _, tail = get_outputs(session)[0].partition(f"\n[... {4_000 - 2 * side:,} lines dropped ...]\n")
    assert (len(head.split("\n")), len(tail.split("\n"))) == (side, side)


def test_protected_outputs_and_errors_are_truncated_too_with_call_and_error_flag_kept() -> None:
    history = [
        make_user_message("go"),
        make_call("c", "bash"),
        make_result("c", NUMBERED, error=True, name="bash"),
        make_reply("hm"),
    ]
    session = open_session(history, tiers(COUNTER))
    assert session.compact(to=1_000).status == "compacted"
    result = get_tool_result(session.view.get_messages()[2])
    assert result is not None
    assert (result.call_id, result.name, result.is_error) == ("c", "bash", True)
    assert "450 lines dropped" in get_text(session.view.get_messages()[2])
    assert session.view.get_messages()[1] == history[1]


@settings(deadline=None)
@given(over=st.integers(20, 600), size=st.integers(10, 2_000))
def test_only_outputs_above_the_limit_are_truncated(over: int, size: int) -> None:
    text = "\n".join(["abcdefghijklmno"] * (size // 4))  # 16 characters a line: 4 tokens
    session = open_session(
        make_bash_steps(1, text), tiers(COUNTER, max_tool_output_tokens=over, truncate_keep_tokens=over // 8)
    )
    session.compact(to=10)
    kinds = [r.kind for b in get_blocks(session) for r in b.replacements]
    if COUNTER.count([text])[0] <= over:
        assert "truncate-outputs" not in kinds
    else:
        assert kinds in (["truncate-outputs"], ["summary"], [])


@pytest.mark.parametrize("lines", [1, 2, 10, 11, 12, 30, 50, 51])
def test_an_output_of_few_long_lines_is_bounded_by_tokens(lines: int) -> None:
    """The original took 10 tokens for a line: minified JSON stayed whole yet counted as modified."""
    text = "\n".join(f'{{"key{n}": "{"value " * (12_000 // lines // 6)}"}}' for n in range(lines))
    session = open_session([*make_bash_steps(1, text)], tiers(COUNTER))
    assert session.compact(to=1_500).status == "compacted"
    (shown,) = get_outputs(session)
    assert COUNTER.count([shown])[0] <= 1_000 + 40
    assert shown.startswith(text[:100])
    assert shown.endswith(text[-100:])
    assert "dropped ...]" in shown


def test_an_output_whose_ends_are_dense_is_bounded_too() -> None:
    """A bound by characters, which the original did not have either, would let four times as many tokens through."""
    text = "\u4e00" * 5_000 + "plain " * 20_000 + "\u4e00" * 5_000
    session = open_session(make_bash_steps(1, text), tiers(COUNTER))
    assert session.compact(to=1_500).status == "compacted"
    assert COUNTER.count(get_outputs(session))[0] <= 1_000 + 40


@settings(deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("ab \n\u4e00{}\U0001f600"), max_size=6_000),
    using=st.sampled_from([BytePairCounter("cl100k"), COUNTER]),
)
def test_no_output_ever_grows_and_none_is_touched_in_vain(text: str, using: Counter) -> None:
    """The original put a marker into outputs that lost no line, and longer placeholders in place of short ones."""
    policy = tiers(using, max_tool_output_tokens=200, truncate_keep_tokens=40, protected_messages=1)
    session = open_session([*make_bash_steps(1, text), make_user_message("go on"), make_reply("well")], policy)
    session.compact(to=20)
    before = {m.role: s for m, s in zip(*_measure(make_bash_steps(1, text), using), strict=True)}
    for message, size in zip(*_measure(session.view.get_messages(), using), strict=True):
        if message.role == "tool" and get_text(message) != text:
            assert size < before["tool"]


def _measure(messages: list[Message], counter: Counter) -> tuple[list[Message], list[Counted]]:
    return messages, measure_messages(messages, counter)


def test_images_beside_a_truncated_text_stay() -> None:
    image = Image("image/png", "aGk=", width=10, height=10)
    result = Message("tool", (ToolResult("c", "look", (Text(NUMBERED), image)),), "tool")
    session = open_session([make_user_message("go"), make_call("c", "look"), result, make_reply("ok")], tiers(COUNTER))
    session.compact(to=1_000)
    shown = get_tool_result(session.view.get_messages()[2])
    assert shown is not None
    assert image in shown.content
    assert "450 lines dropped" in get_text(session.view.get_messages()[2])


def test_old_outputs_become_placeholders_with_lines_and_the_first_100_characters() -> None:
    first = "  " + "x" * 150
    text = first + "\n" + NUMBERED[:6_000]
    session = open_session(make_bash_steps(12, text), tiers(COUNTER))
    session.compact(to=count_total(session.view.get_messages()) * 60 // 100)
    shown = get_outputs(session)
    count = text.count("\n") + 1
    old = [f"{REMOVED_PREFIX}{count} lines; it began: {first.strip()[:100].rstrip()}...]"] * 6
    assert shown[:6] == old
    assert shown[6:] == [text] * 6  # 12 messages: the answer, five steps and a half, which is protected as a whole
    untouched = [m for m in session.view.get_messages() if m.role != "tool" and m.origin != "tenfold"]
    assert untouched == [m for m in make_bash_steps(12, text) if m.role != "tool"]


def test_what_is_replaced_already_is_left_and_counts_the_lines_of_the_original() -> None:
    session = open_session(make_bash_steps(12), tiers(COUNTER))
    session.compact(to=count_total(session.view.get_messages()) // 2)  # tier 1 is enough
    assert {r.kind for r in get_blocks(session)[0].replacements} == {"truncate-outputs"}
    session.compact(to=count_total(session.view.get_messages()) * 2 // 3)  # now tier 2
    removed = [t for t in get_outputs(session) if t.startswith(REMOVED_PREFIX)]
    assert removed
    assert all(t.startswith(f"{REMOVED_PREFIX}500 lines; ") for t in removed)
    session.append(make_user_message("And now?"), *make_bash_steps(8, "y" * 7_000)[1:])
    session.compact(to=count_total(session.view.get_messages()) * 3 // 4)
    assert get_outputs(session)[: len(removed)] == removed


def test_fewer_messages_than_protected_leave_old_outputs_alone() -> None:
    session = open_session(make_bash_steps(4, "y" * 7_000), tiers(COUNTER))
    before = session.view.get_messages()
    session.compact(to=count_total(before) - 10)
    assert [r.kind for block in get_blocks(session) for r in block.replacements] == ["summary"], "tier 3 alone acts"
    assert get_outputs(session) == ["y" * 7_000] * 3


def test_short_outputs_and_errors_keep_their_text() -> None:
    """The original replaced an `ok` by a longer placeholder, and the text of errors as well."""
    failed = "Traceback (most recent call last):\n" + "  File x.py, line 1\n" * 40 + "ValueError: no such port 8081"
    history = [
        make_user_message("go"),
        *[m for n in range(9) for m in (make_call(f"k{n}", "run"), make_result(f"k{n}", f"ok {n}", name="run"))],
        make_call("e", "run"),
        make_result("e", failed, error=True, name="run"),
        *make_bash_steps(14, "z" * 6_000)[1:],
    ]
    session = open_session(history, tiers(COUNTER))
    session.compact(to=count_total(history) // 2)
    shown = get_outputs(session)
    assert [f"ok {n}" for n in range(9)] == shown[:9]
    assert shown[9] == failed
    assert any(t.startswith(REMOVED_PREFIX) for t in shown[10:])


def test_prune_messages_says_what_it_did() -> None:
    config = CompactionConfig(context_window=40_000, protected_messages=4)
    assert config.target_tokens == 14_400
    small = make_chat_list(2, "fine")
    nothing = prune_messages(small, config, counter=COUNTER)
    assert (nothing.tier_reached, nothing.messages_modified) == ("None", 0)
    assert all(a is b for a, b in zip(nothing.messages, small, strict=True))
    large = make_chat_list(6, NUMBERED * 2)
    one = prune_messages(large, config, counter=COUNTER)
    assert (one.tier_reached, one.messages_modified) == ("TruncateOutputs", 6)
    assert one.tokens_before > config.target_tokens >= one.tokens_after
    many = make_chat_list(60, "word " * 1_500)
    two = prune_messages(many, config, counter=COUNTER)
    assert two.tier_reached == "RemoveOldOutputs"
    assert two.tokens_before > config.target_tokens >= two.tokens_after
    calls = [m["tool_call_id"] for m in two.messages if m["role"] == "tool"]
    assert calls == [f"c{n}" for n in range(60)]


def test_pruning_leaves_the_list_it_was_given() -> None:
    """The original changed the stored messages in place."""
    config = CompactionConfig(context_window=40_000)
    given_ = make_chat_list(12, NUMBERED * 2)
    before = encode_message(given_)
    result = prune_messages(given_, config, counter=COUNTER)
    assert result.tier_reached == "TruncateOutputs"
    assert encode_message(given_) == before
    assert result.messages[1] is given_[1]
    assert result.messages[2] is not given_[2]


def make_chat_list(count: int, text: str) -> list[dict[str, object]]:
    out: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for n in range(count):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        out.append({"role": "assistant", "content": None, "tool_calls": [call]})
        out.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return out


def test_a_tier_runs_only_while_the_view_is_above_the_target() -> None:
    """Masking before summarising: a summary is made only where both mechanical tiers were too little."""
    history = [*make_bash_steps(14), *make_work(6), make_user_message("next"), make_reply("ok")]
    kinds = []
    for percent in (100, 60, 10, 4):
        session = open_session(history, tiers(COUNTER))
        session.compact(to=count_total(history) * percent // 100)
        kinds.append(sorted({r.kind for b in get_blocks(session) for r in b.replacements}))
    assert kinds[0] == []
    assert kinds[1] == ["truncate-outputs"]
    assert "remove-outputs" in kinds[2]
    assert "summary" not in kinds[2]
    assert "summary" in kinds[3]
    assert [stage.name for stage in tiers(COUNTER).stages] == ["truncate-outputs", "remove-outputs", "summarize-older"]


@pytest.mark.parametrize("protected", range(1, 16))
def test_the_protected_part_never_opens_with_a_result_whose_call_is_gone(protected: int) -> None:
    """The original cut at a plain count: the provider refused a result whose call had been summarised away."""
    history = [
        m for n in range(20) for m in (make_user_message(f"{n} {FILLER * 12}"), make_reply(f"{n} {FILLER * 12}"))
    ]
    for n in range(8):
        two = Message("assistant", (*make_call(f"a{n}").parts, *make_call(f"b{n}").parts), "model")
        history += [two, make_result(f"a{n}", "fine"), make_result(f"b{n}", "fine"), make_reply(f"step {n}")]
    session = open_session(history, tiers(COUNTER, protected_messages=protected))
    assert session.compact(to=count_total(history) // 2).status == "compacted"
    for wire in WIRES:
        assert session.conversation.find_violations(wire) == ()
    summary = next(r for b in get_blocks(session) for r in b.replacements if r.kind == "summary")
    kept = len(history) - 1 - summary.last
    assert protected <= kept <= protected + 2
    assert session.view.get_messages()[-kept:] == history[-kept:]


def test_twelve_huge_messages_do_not_overflow_after_the_third_tier() -> None:
    """The original protected twelve messages whatever their size, and checked nothing afterwards."""
    history = [make_user_message("go")]
    for n in range(12):
        history += [make_reply(f"{n} " + "a thought " * 1_500), make_user_message(f"{n} more " + "words " * 200)]
    session = open_session([*history, make_user_message("now")], tiers(COUNTER))
    outcome = session.compact(to=9_000)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 9_000
    assert session.view.get_messages()[-1] == make_user_message("now")
    fits = open_session(history, replace(tiers(COUNTER)))
    fits.compact(to=30_000)
    assert fits.view.get_messages()[-7:] == history[-7:]
