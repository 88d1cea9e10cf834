"""Gates in a session's own format: each fails on the defect it is for, and none for what was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tenfold.evals.cases import conversations, cuts_of
from tenfold.evals.methods import Preset
from tenfold.evals.own_wire import OwnWire, broken, refused
from tenfold.evals.quality import checked
from tenfold.policies import POLICIES
from tenfold.record.message import Message, Native, Part, Text, Thinking, ToolCall, ToolResult
from tests.sessions import FOLDER, ROOT, needed

CLAUDE = Native("claude-code", b"{}")


def user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def agent(*parts: Part) -> Message:
    return Message("assistant", parts, "model")


def step(name: str, *, signature: str) -> list[Message]:
    thought = Thinking(f"I should call {name}.", signature)
    result = ToolResult(name, "run", (Text(f"{name} is done"),))
    return [agent(thought, Text(f"Calling {name}."), ToolCall(name, "run")), Message("tool", (result,), "tool")]


SOURCE = [
    replace(user("Mend it."), native=CLAUDE),
    *step("a", signature="sig-a"),
    *step("b", signature="sig-b"),
    user("On."),
]
SOURCE[-1] = replace(SOURCE[-1], native=CLAUDE)
FIRST, SECOND = SOURCE[1], SOURCE[3]


def gates(view: Sequence[Message], source: Sequence[Message] = SOURCE) -> set[str]:
    return {each.gate for each in broken(source, view)}


def put(at: int, *parts: Part) -> list[Message]:
    """The source with other parts in one of its messages."""
    return [*SOURCE[:at], replace(SOURCE[at], parts=parts), *SOURCE[at + 1 :]]


def test_what_was_recorded_and_honest_views_break_nothing() -> None:
    assert not broken(SOURCE, SOURCE)
    assert not broken(SOURCE, [user("A summary."), *SOURCE[3:]])
    assert not broken(SOURCE, put(1, *FIRST.parts[:1], FIRST.parts[2])), "its text is gone, its call has what it needs"


@pytest.mark.parametrize(
    ("gate", "view"),
    [
        ("signature dropped", put(1, *FIRST.parts[1:])),
        ("thinking moved", put(1, Thinking("I should call a."), *FIRST.parts[1:])),
        ("thinking moved", put(1, Thinking("I should not.", "sig-a"), *FIRST.parts[1:])),
        ("thinking moved", put(1, SECOND.parts[0], *FIRST.parts[1:])),
        ("thinking moved", put(1, *FIRST.parts, FIRST.parts[0])),
        ("thinking moved", [*SOURCE[:3], agent(SECOND.parts[0]), SOURCE[-1]]),
        ("orphan result", [SOURCE[0], SOURCE[2]]),
        ("orphan call", [SOURCE[0], FIRST, *SOURCE[3:]]),
    ],
)
def test_each_gate_breaks_on_its_defect(gate: str, view: list[Message]) -> None:
    assert gate in gates(view)


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
    assert [each.gate for each in refused(SOURCE, sent, wire)] == ["rejected role"]


def test_what_the_session_already_had_is_not_charged() -> None:
    odd = put(1, *FIRST.parts, FIRST.parts[0])
    assert not gates(odd, odd)
    unsigned = put(1, *FIRST.parts[1:])
    assert not gates(unsigned, unsigned)
    assert gates(SOURCE, unsigned) == {"thinking moved"}, "it came from nowhere"


def test_thinking_that_no_provider_signed_may_go() -> None:
    plain = [SOURCE[0], *step("a", signature=""), user("On.")]
    assert not gates([plain[0], replace(plain[1], parts=plain[1].parts[1:]), *plain[2:]], plain)


def test_a_past_is_what_the_chat_messages_were_made_of() -> None:
    for name in ("pricing.claude-code.jsonl", "logs.pi.jsonl", "tracker.codex.jsonl"):
        (one,) = conversations(ROOT / "examples" / "sessions" / name)
        assert len(one.own) == len(one.messages)
        assert all(m.native is not None for own in one.own for m in own)


def test_the_cuts_behind_thinking_are_counted() -> None:
    own = OwnWire([SOURCE[:1], SOURCE[1:2], SOURCE[2:]], "tenfold")
    assert own.thinking([1, 2, 3]) == 2
    assert not own(3, 2_000)


@pytest.mark.parametrize("policy", POLICIES)
def test_signatures_of_recorded_sessions_stay(policy: str) -> None:
    needed()
    (one,) = conversations(FOLDER / "gemini-cli" / "NotFollowingUserIntent.json")
    found = checked(cuts_of(one), Preset(policy))
    assert found.thinking == found.cuts > 0
    assert not found.first
