"""Gates in a session's own format: each fails on the defect it is for, and none for what was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tenfold.config.policies import POLICIES
from tenfold.core.record.message import Message, NativeBytes, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.testing.methods import Preset
from tenfold_yardstick.cases import find_cuts, read_sessions
from tenfold_yardstick.own_format import OwnFormatCheck, find_own_failures, find_refusals
from tenfold_yardstick.quality import check_gates
from tests.sessions import FOLDER, ROOT, require_sessions

CLAUDE = NativeBytes("claude-code", b"{}")


def make_user_message(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_reply(*parts: Part) -> Message:
    return Message("assistant", parts, "model")


def make_step(name: str, *, signature: str) -> list[Message]:
    thought = Thinking(f"I should call {name}.", signature)
    result = ToolResult(name, "run", (Text(f"{name} is done"),))
    return [make_reply(thought, Text(f"Calling {name}."), ToolCall(name, "run")), Message("tool", (result,), "tool")]


SOURCE = [
    replace(make_user_message("Mend it."), native=CLAUDE),
    *make_step("a", signature="sig-a"),
    *make_step("b", signature="sig-b"),
    make_user_message("On."),
]
SOURCE[-1] = replace(SOURCE[-1], native=CLAUDE)
FIRST, SECOND = SOURCE[1], SOURCE[3]


def find_gates(view: Sequence[Message], source: Sequence[Message] = SOURCE) -> set[str]:
    return {each.gate for each in find_own_failures(source, view)}


def replace_parts(at: int, *parts: Part) -> list[Message]:
    """The source with other parts in one of its messages."""
    return [*SOURCE[:at], replace(SOURCE[at], parts=parts), *SOURCE[at + 1 :]]


def test_what_was_recorded_and_honest_views_break_nothing() -> None:
    assert not find_own_failures(SOURCE, SOURCE)
    assert not find_own_failures(SOURCE, [make_user_message("A summary."), *SOURCE[3:]])
    assert not find_own_failures(SOURCE, replace_parts(1, *FIRST.parts[:1], FIRST.parts[2])), (
        "its text is gone, its call has what it needs"
    )


@pytest.mark.parametrize(
    ("gate", "view"),
    [
        ("signature dropped", replace_parts(1, *FIRST.parts[1:])),
        ("thinking moved", replace_parts(1, Thinking("I should call a."), *FIRST.parts[1:])),
        ("thinking moved", replace_parts(1, Thinking("I should not.", "sig-a"), *FIRST.parts[1:])),
        ("thinking moved", replace_parts(1, SECOND.parts[0], *FIRST.parts[1:])),
        ("thinking moved", replace_parts(1, *FIRST.parts, FIRST.parts[0])),
        ("thinking moved", [*SOURCE[:3], make_reply(SECOND.parts[0]), SOURCE[-1]]),
        ("orphan result", [SOURCE[0], SOURCE[2]]),
        ("orphan call", [SOURCE[0], FIRST, *SOURCE[3:]]),
    ],
)
def test_each_gate_breaks_on_its_defect(gate: str, view: list[Message]) -> None:
    assert gate in find_gates(view)


ASKS, ANSWERS = b'{"role":"user","content":"Go on."}', b'{"role":"assistant","content":"Done."}'
MODEL = b'{"role":"model","parts":[{"text":"Done."}]}'


@pytest.mark.parametrize(
    ("wire", "sent"),
    [
        ("anthropic", [ANSWERS, ASKS]),
        ("anthropic", [ASKS, ANSWERS, b'{"role":"system","content":"Late."}', ASKS]),
        ("gemini", [MODEL, b'{"role":"user","parts":[{"text":"Go on."}]}']),
        ("gemini", [b'{"role":"summary","parts":[{"text":"So far."}]}', MODEL]),
    ],
)
def test_roles_that_the_strictest_providers_reject(wire: str, sent: list[bytes]) -> None:
    assert [each.gate for each in find_refusals(SOURCE, sent, wire)] == ["rejected role"]


def test_what_the_session_already_had_is_not_charged() -> None:
    odd = replace_parts(1, *FIRST.parts, FIRST.parts[0])
    assert not find_gates(odd, odd)
    unsigned = replace_parts(1, *FIRST.parts[1:])
    assert not find_gates(unsigned, unsigned)
    assert find_gates(SOURCE, unsigned) == {"thinking moved"}, "it came from nowhere"


def test_thinking_that_no_provider_signed_may_go() -> None:
    plain = [SOURCE[0], *make_step("a", signature=""), make_user_message("On.")]
    assert not find_gates([plain[0], replace(plain[1], parts=plain[1].parts[1:]), *plain[2:]], plain)


def test_a_past_is_what_the_chat_messages_were_made_of() -> None:
    for name in ("pricing.claude-code.jsonl", "logs.pi.jsonl", "tracker.codex.jsonl"):
        (one,) = read_sessions(ROOT / "examples" / "sessions" / name)
        assert len(one.native_messages) == len(one.messages)
        assert all(m.native is not None for own in one.native_messages for m in own)


def test_the_cuts_behind_thinking_are_counted() -> None:
    own = OwnFormatCheck([SOURCE[:1], SOURCE[1:2], SOURCE[2:]], "tenfold")
    assert own.count_thinking_cuts([1, 2, 3]) == 2
    assert not own(3, 2_000)


@pytest.mark.costly(2)
@pytest.mark.parametrize("policy", POLICIES)
def test_signatures_of_recorded_sessions_stay(policy: str) -> None:
    require_sessions()
    (one,) = read_sessions(FOLDER / "gemini-cli" / "NotFollowingUserIntent.json")
    found = check_gates(find_cuts(one), Preset(policy))
    assert found.thinking == found.cuts > 0
    assert not found.first
