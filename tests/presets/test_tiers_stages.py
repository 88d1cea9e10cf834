"""`tiers`: the first two tiers, where they stop, and what they leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.designs.tiers import CompactionConfig, prune_messages
from tenfold.meter.counters import Bpe, Characters4, Counter, sizes
from tenfold.plan.stages.outputs import FEW_LINES, REMOVED, ends
from tenfold.policies.tiers import tiers
from tenfold.record.message import Image, Message, Text, ToolResult, result_of, text_of
from tenfold.session import Session
from tests.engine.making import FILLER, blocks, called, gave, opened, raw, said, user, work

COUNTER = Characters4()
NUMBERED = "\n".join(f"line {n} of the output" for n in range(500))
"""500 lines: about 2,700 tokens."""
WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


def steps(count: int, text: str = NUMBERED, *, error: bool = False) -> list[Message]:
    out = [user("Find out why it fails.")]
    for n in range(count):
        out += [called(f"c{n}", "bash", f'{{"command": "run {n}"}}'), gave(f"c{n}", text, error=error, name="bash")]
    return [*out, said("That is all.")]


def outputs(session: Session) -> list[str]:
    return [text_of(m) for m in session.view.messages() if m.role == "tool"]


def total(messages: list[Message]) -> int:
    return sum(sizes(messages, COUNTER))


@pytest.mark.spec("tiers.B6")
def test_500_lines_become_25_a_marker_with_450_and_25() -> None:
    history = steps(1, NUMBERED + "\n" + NUMBERED)
    session = opened(steps(3), tiers(COUNTER))
    session.compact(to=total(session.view.messages()) - 100)
    rows = NUMBERED.split("\n")
    for text in outputs(session):
        shown = text.split("\n")
        assert shown[:25] == rows[:25]
        assert shown[25] == "[... 450 lines dropped ...]"
        assert shown[26:] == rows[-25:]
    longer = opened(history, tiers(COUNTER))
    longer.compact(to=1_000)
    assert "[... 950 lines dropped ...]" in outputs(longer)[0]


@pytest.mark.spec("tiers.B6")
@pytest.mark.parametrize(("keep", "side"), [(250, 25), (100, 10), (1_000, 100), (10, 5)])
def test_the_lines_of_a_side_are_a_tenth_of_the_kept_tokens_and_at_least_five(keep: int, side: int) -> None:
    short = "\n".join(f"{n}" for n in range(4_000))
    session = opened(steps(1, short), tiers(COUNTER, truncate_keep_tokens=keep, max_tool_output_tokens=1_000))
    session.compact(to=900)
    head, _, tail = outputs(session)[0].partition(f"\n[... {4_000 - 2 * side:,} lines dropped ...]\n")
    assert (len(head.split("\n")), len(tail.split("\n"))) == (side, side)


@pytest.mark.spec("tiers.B6")
def test_protected_outputs_and_errors_are_truncated_too_with_call_and_error_flag_kept() -> None:
    history = [user("go"), called("c", "bash"), gave("c", NUMBERED, error=True, name="bash"), said("hm")]
    session = opened(history, tiers(COUNTER))
    assert session.compact(to=1_000).status == "compacted"
    result = result_of(session.view.messages()[2])
    assert result is not None
    assert (result.call, result.name, result.error) == ("c", "bash", True)
    assert "450 lines dropped" in text_of(session.view.messages()[2])
    assert session.view.messages()[1] == history[1]


@pytest.mark.spec("tiers.B6")
@settings(deadline=None)
@given(over=st.integers(20, 600), size=st.integers(10, 2_000))
def test_only_outputs_above_the_limit_are_truncated(over: int, size: int) -> None:
    text = "\n".join(["abcdefghijklmno"] * (size // 4))  # 16 characters a line: 4 tokens
    session = opened(steps(1, text), tiers(COUNTER, max_tool_output_tokens=over, truncate_keep_tokens=over // 8))
    session.compact(to=10)
    kinds = [r.kind for b in blocks(session) for r in b.replacements]
    if COUNTER.count([text])[0] <= over:
        assert "truncate-outputs" not in kinds
    else:
        assert kinds in (["truncate-outputs"], ["summary"], [])


@pytest.mark.spec("tiers.X2")
@pytest.mark.parametrize("lines", [1, 2, 10, 11, 12, 30, 50, 51])
def test_an_output_of_few_long_lines_is_bounded_by_tokens(lines: int) -> None:
    """The original took 10 tokens for a line: minified JSON stayed whole yet counted as modified."""
    text = "\n".join(f'{{"key{n}": "{"value " * (12_000 // lines // 6)}"}}' for n in range(lines))
    session = opened([*steps(1, text)], tiers(COUNTER))
    assert session.compact(to=1_500).status == "compacted"
    (shown,) = outputs(session)
    assert COUNTER.count([shown])[0] <= 1_000 + 40
    assert shown.startswith(text[:100])
    assert shown.endswith(text[-100:])
    assert "dropped ...]" in shown


@pytest.mark.spec("tiers.X2")
def test_an_output_whose_ends_are_dense_is_bounded_too() -> None:
    """A bound by characters, which the original did not have either, would let four times as many tokens through."""
    text = "\u4e00" * 5_000 + "plain " * 20_000 + "\u4e00" * 5_000
    session = opened(steps(1, text), tiers(COUNTER))
    assert session.compact(to=1_500).status == "compacted"
    assert COUNTER.count(outputs(session))[0] <= 1_000 + 40


@pytest.mark.spec("tiers.X2", "tiers.X3")
@settings(deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("ab \n\u4e00{}\U0001f600"), max_size=6_000),
    using=st.sampled_from([Bpe("cl100k"), COUNTER]),
)
def test_no_output_ever_grows_and_none_is_touched_in_vain(text: str, using: Counter) -> None:
    """The original put a marker into outputs that lost no line, and longer placeholders in place of short ones."""
    policy = tiers(using, max_tool_output_tokens=200, truncate_keep_tokens=40, protected_messages=1)
    session = opened([*steps(1, text), user("go on"), said("well")], policy)
    session.compact(to=20)
    before = {m.role: s for m, s in zip(*_measured(steps(1, text), using), strict=True)}
    for message, size in zip(*_measured(session.view.messages(), using), strict=True):
        if message.role == "tool" and text_of(message) != text:
            assert size < before["tool"]


def _measured(messages: list[Message], counter: Counter) -> tuple[list[Message], list[int]]:
    return messages, sizes(messages, counter)


@pytest.mark.spec("tiers.X2")
@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab \n\u4e00"), max_size=300), st.integers(1, 12), st.integers(0, 80))
def test_the_ends_of_a_text_are_its_ends(text: str, lines: int, characters: int) -> None:
    found = ends(text, lines, characters)
    if found == text:
        return
    head, _, rest = found.partition("\n[... ")
    tail = rest.partition(" ...]\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail) or text.removesuffix("\n").endswith(tail)
    assert max(len(head), len(tail)) <= characters
    if len(text.split("\n")) > FEW_LINES + 1:
        assert max(head.count("\n"), tail.count("\n")) < max(lines, 1) + 1


@pytest.mark.spec("tiers.B6")
def test_images_beside_a_truncated_text_stay() -> None:
    image = Image("image/png", "aGk=", width=10, height=10)
    result = Message("tool", (ToolResult("c", "look", (Text(NUMBERED), image)),), "tool")
    session = opened([user("go"), called("c", "look"), result, said("ok")], tiers(COUNTER))
    session.compact(to=1_000)
    shown = result_of(session.view.messages()[2])
    assert shown is not None
    assert image in shown.content
    assert "450 lines dropped" in text_of(session.view.messages()[2])


@pytest.mark.spec("tiers.B7")
def test_old_outputs_become_placeholders_with_lines_and_the_first_100_characters() -> None:
    first = "  " + "x" * 150
    text = first + "\n" + NUMBERED[:6_000]
    session = opened(steps(12, text), tiers(COUNTER))
    session.compact(to=total(session.view.messages()) * 60 // 100)
    shown = outputs(session)
    count = text.count("\n") + 1
    old = [f"{REMOVED}{count} lines; it began: {first.strip()[:100].rstrip()}...]"] * 6
    assert shown[:6] == old
    assert shown[6:] == [text] * 6  # 12 messages: the answer, five steps and a half, which is protected as a whole
    untouched = [m for m in session.view.messages() if m.role != "tool" and m.origin != "tenfold"]
    assert untouched == [m for m in steps(12, text) if m.role != "tool"]


@pytest.mark.spec("tiers.B7")
def test_what_is_replaced_already_is_left_and_counts_the_lines_of_the_original() -> None:
    session = opened(steps(12), tiers(COUNTER))
    session.compact(to=total(session.view.messages()) // 2)  # tier 1 is enough
    assert {r.kind for r in blocks(session)[0].replacements} == {"truncate-outputs"}
    session.compact(to=total(session.view.messages()) * 2 // 3)  # now tier 2
    removed = [t for t in outputs(session) if t.startswith(REMOVED)]
    assert removed
    assert all(t.startswith(f"{REMOVED}500 lines; ") for t in removed)
    session.append(user("And now?"), *steps(8, "y" * 7_000)[1:])
    session.compact(to=total(session.view.messages()) * 3 // 4)
    assert outputs(session)[: len(removed)] == removed


@pytest.mark.spec("tiers.B7", "tiers.B18")
def test_fewer_messages_than_protected_leave_old_outputs_alone() -> None:
    session = opened(steps(4, "y" * 7_000), tiers(COUNTER))
    before = session.view.messages()
    outcome = session.compact(to=total(before) - 10)
    assert not any(t.startswith(REMOVED) for t in outputs(session))
    assert outcome.rung in ("", "none", "extractive", "mechanical")


@pytest.mark.spec("tiers.X3")
def test_short_outputs_and_errors_keep_their_text() -> None:
    """The original replaced an `ok` by a longer placeholder, and the text of errors as well."""
    failed = "Traceback (most recent call last):\n" + "  File x.py, line 1\n" * 40 + "ValueError: no such port 8081"
    history = [
        user("go"),
        *[m for n in range(9) for m in (called(f"k{n}", "run"), gave(f"k{n}", f"ok {n}", name="run"))],
        called("e", "run"),
        gave("e", failed, error=True, name="run"),
        *steps(14, "z" * 6_000)[1:],
    ]
    session = opened(history, tiers(COUNTER))
    session.compact(to=total(history) // 2)
    shown = outputs(session)
    assert [f"ok {n}" for n in range(9)] == shown[:9]
    assert shown[9] == failed
    assert any(t.startswith(REMOVED) for t in shown[10:])


@pytest.mark.spec("tiers.B8")
def test_prune_messages_says_what_it_did() -> None:
    config = CompactionConfig(context_window=40_000, protected_messages=4)
    assert config.target_tokens == 14_400
    small = native(2, "fine")
    nothing = prune_messages(small, config, counter=COUNTER)
    assert (nothing.tier_reached, nothing.messages_modified) == ("None", 0)
    assert all(a is b for a, b in zip(nothing.messages, small, strict=True))
    large = native(6, NUMBERED * 2)
    one = prune_messages(large, config, counter=COUNTER)
    assert (one.tier_reached, one.messages_modified) == ("TruncateOutputs", 6)
    assert one.tokens_before > config.target_tokens >= one.tokens_after
    many = native(60, "word " * 1_500)
    two = prune_messages(many, config, counter=COUNTER)
    assert two.tier_reached == "RemoveOldOutputs"
    assert two.tokens_before > config.target_tokens >= two.tokens_after
    calls = [m["tool_call_id"] for m in two.messages if m["role"] == "tool"]
    assert calls == [f"c{n}" for n in range(60)]


@pytest.mark.spec("tiers.B8", "tiers.X4")
def test_pruning_leaves_the_list_it_was_given() -> None:
    """The original changed the stored messages in place."""
    config = CompactionConfig(context_window=40_000)
    given_ = native(12, NUMBERED * 2)
    before = raw(given_)
    result = prune_messages(given_, config, counter=COUNTER)
    assert result.tier_reached == "TruncateOutputs"
    assert raw(given_) == before
    assert result.messages[1] is given_[1]
    assert result.messages[2] is not given_[2]


def native(count: int, text: str) -> list[dict[str, object]]:
    out: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for n in range(count):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        out.append({"role": "assistant", "content": None, "tool_calls": [call]})
        out.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return out


@pytest.mark.spec("tiers.B6", "tiers.B8", "tiers.X9")
def test_a_tier_runs_only_while_the_view_is_above_the_target() -> None:
    """Masking before summarising: a summary is made only where both mechanical tiers were too little."""
    history = [*steps(14), *work(6), user("next"), said("ok")]
    kinds = []
    for percent in (100, 60, 10, 4):
        session = opened(history, tiers(COUNTER))
        session.compact(to=total(history) * percent // 100)
        kinds.append(sorted({r.kind for b in blocks(session) for r in b.replacements}))
    assert kinds[0] == []
    assert kinds[1] == ["truncate-outputs"]
    assert "remove-outputs" in kinds[2]
    assert "summary" not in kinds[2]
    assert "summary" in kinds[3]
    assert [stage.name for stage in tiers(COUNTER).stages] == ["truncate-outputs", "remove-outputs", "summarize-older"]


@pytest.mark.spec("tiers.X4", "tiers.X10")
def test_both_tiers_are_overlays() -> None:
    """The original destroyed the outputs in the stored session."""
    history = steps(14)
    session = opened(history, tiers(COUNTER))
    session.compact(to=total(history) // 12)
    assert any(t.startswith(REMOVED) for t in outputs(session))
    block = blocks(session)[-1]
    originals = [line.message for line in session.expand(block.id, deep=True)]
    assert [m for m in originals if m.role == "tool"] == [m for m in history if m.role == "tool"]
    session.undo()
    assert session.view.messages() == history


@pytest.mark.spec("tiers.X1")
@pytest.mark.parametrize("protected", range(1, 16))
def test_the_protected_part_never_opens_with_a_result_whose_call_is_gone(protected: int) -> None:
    """The original cut at a plain count: the provider refused a result whose call had been summarised away."""
    history = [m for n in range(20) for m in (user(f"{n} {FILLER * 12}"), said(f"{n} {FILLER * 12}"))]
    for n in range(8):
        two = Message("assistant", (*called(f"a{n}").parts, *called(f"b{n}").parts), "model")
        history += [two, gave(f"a{n}", "fine"), gave(f"b{n}", "fine"), said(f"step {n}")]
    session = opened(history, tiers(COUNTER, protected_messages=protected))
    assert session.compact(to=total(history) // 2).status == "compacted"
    for wire in WIRES:
        assert session.violations(wire) == ()
    summary = next(r for b in blocks(session) for r in b.replacements if r.kind == "summary")
    kept = len(history) - 1 - summary.last
    assert protected <= kept <= protected + 2
    assert session.view.messages()[-kept:] == history[-kept:]


@pytest.mark.spec("tiers.X7")
def test_twelve_huge_messages_do_not_overflow_after_the_third_tier() -> None:
    """The original protected twelve messages whatever their size, and checked nothing afterwards."""
    history = [user("go")]
    for n in range(12):
        history += [said(f"{n} " + "a thought " * 1_500), user(f"{n} more " + "words " * 200)]
    session = opened([*history, user("now")], tiers(COUNTER))
    outcome = session.compact(to=9_000)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 9_000
    assert session.view.messages()[-1] == user("now")
    fits = opened(history, replace(tiers(COUNTER)))
    fits.compact(to=30_000)
    assert fits.view.messages()[-7:] == history[-7:]
