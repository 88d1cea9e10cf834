"""Each rule refuses a request that breaks it and takes the one beside it; what providers took once is taken."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.models import provider_rules
from tests.models.loopback import SPOKEN, Api, Served
from tests.models.provider_rules import ROWS, Issued, find_refusal

Json = dict[str, Any]
Break = Callable[[Json], object]
SESSIONS = Path(__file__).parents[2] / "examples" / "sessions"
DATA = Path(os.environ.get("TENFOLD_SESSIONS", "/nonexistent"))
APIS: tuple[Api, ...] = ("messages", "chat", "responses", "generate")
WINDOW = 1_000


def make_requests() -> tuple[Issued, dict[str, Json]]:
    """A good request of each API: a question, an answer with two calls and what was thought, their results, go on."""
    issued, answers = Issued(), {}
    for api in APIS:
        calls = (("a1", "look", {"path": "a"}), ("a2", "look", {"path": "b"}))
        said = "" if api == "responses" else "Looking."
        served = Served(said, "tool", call=calls[0], also=calls[1:], thought=("I should look.", "signed"))
        answers[api] = SPOKEN[api](served, "a-model")
        issued.note(api, answers[api])
    asked = "Look at a and b."
    results = [{"type": "tool_result", "tool_use_id": f"toolu_a{n}", "content": "fine"} for n in (1, 2)]
    output = answers["responses"]["output"]
    parts = answers["generate"]["candidates"][0]["content"]["parts"]
    responses = [{"functionResponse": {"name": "look", "response": {"result": "fine"}}} for _ in (1, 2)]
    return issued, {
        "messages": {
            "max_tokens": 100,
            "thinking": {"type": "enabled", "budget_tokens": 50},
            "messages": [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": answers["messages"]["content"]},
                {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
            ],
        },
        "chat": {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": asked},
                answers["chat"]["choices"][0]["message"],
                {"role": "tool", "tool_call_id": "call_a1", "content": "fine"},
                {"role": "tool", "tool_call_id": "call_a2", "content": ""},
            ]
        },
        "responses": {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": asked}]},
                *output,
                *({"type": "function_call_output", "call_id": f"call_a{n}", "output": "fine"} for n in (1, 2)),
            ]
        },
        "generate": {
            "contents": [
                {"role": "user", "parts": [{"text": asked}]},
                {"role": "model", "parts": parts},
                {"role": "user", "parts": responses},
            ]
        },
    }


def find_place(body: Json, path: Sequence[str | int | slice]) -> Any:  # noqa: ANN401 - JSON
    """Finds what holds the last step of a path in a request."""
    inner: Any = body
    for step in path[:-1]:
        inner = inner[step]
    return inner


def put(*path: str | int | slice, value: object) -> Break:
    """Puts a value at a place of a request."""
    return lambda body: operator.setitem(find_place(body, path), path[-1], value)


def remove(*path: str | int | slice) -> Break:
    """Takes out what stands at a place of a request."""
    return lambda body: operator.delitem(find_place(body, path), path[-1])


def repeat(*path: str | int, at: int | None = None) -> Break:
    """Repeats an item of a list, at its end or at a place in it."""

    def change(body: Json) -> None:
        items = find_place(body, path)
        items.insert(len(items) if at is None else at, deepcopy(items[path[-1]]))

    return change


def add_system(body: Json, at: int, model: str = "claude-opus-5-5", times: int = 1) -> Json:
    """Adds a system message to the list of a request to Anthropic."""
    body["model"] = model
    body["messages"][at:at] = [{"role": "system", "content": "Be brief."}] * times
    return body


THOUGHTLESS = (
    {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "look", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": ""}]},
)
"""An answer that the server has given no thoughts to, and what came of its call."""
SAID, THIRD = ("messages", 1, "content"), ("messages", 2, "content")
MODEL = ("contents", 1, "parts")
BREAKS: tuple[tuple[str, Break], ...] = (
    ("messages.max_tokens", remove("max_tokens")),
    ("messages.none", put("messages", value=[])),
    ("messages.role", put("messages", 0, "role", value="system")),
    ("messages.role", put("messages", 2, "role", value="tool")),
    ("messages.role", lambda body: add_system(body, 1, "claude-opus-4-7")),
    ("messages.system_first", lambda body: add_system(body, 0)),
    ("messages.system_place", lambda body: add_system(body, 2)),
    ("messages.system_place", lambda body: add_system(body, 1, times=2)),
    ("messages.first", remove("messages", 0)),
    ("messages.last", put("messages", value=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])),
    ("messages.empty", put("messages", 0, "content", value="")),
    ("messages.empty", put(*SAID, value=[])),
    ("messages.empty_text", put(*SAID, 1, "text", value="")),
    ("messages.empty_text", put(*THIRD, 2, "text", value=" \n")),
    ("messages.block", put(*SAID, 1, "type", value="tool_result")),
    ("messages.block", put(*THIRD, 2, "type", value="input_text")),
    ("messages.call_id", put(*SAID, 2, "id", value="a.b")),
    ("messages.call_twice", repeat(*SAID, 2)),
    ("messages.unanswered", remove(*THIRD, 1)),
    ("messages.unanswered", remove("messages", 2)),
    ("messages.unanswered", repeat(*THIRD, 2, at=0)),
    ("messages.orphan", put(*THIRD, 0, "tool_use_id", value="toolu_a3")),
    ("messages.orphan", remove("messages", 1)),
    ("messages.result_twice", repeat(*THIRD, 1, at=1)),
    ("messages.thinking_first", repeat(*SAID, 1, at=0)),
    ("messages.thinking_missing", put("messages", slice(1, 3), value=THOUGHTLESS)),
    ("messages.signature_missing", remove(*SAID, 0, "signature")),
    ("messages.signature", put(*SAID, 0, "signature", value="forged")),
    ("messages.signature", put(*SAID, 0, value={"type": "redacted_thinking", "data": "forged"})),
    ("messages.thinking_changed", put(*SAID, 0, "thinking", value="I should not look.")),
    ("messages.thinking_changed", remove(*SAID, 0)),
    ("chat.none", put("messages", value=[])),
    ("chat.role", put("messages", 1, "role", value="model")),
    ("chat.content_null", put("messages", 1, "content", value=None)),
    ("chat.content_null", put("messages", 3, "content", value=None)),
    ("chat.content_type", put("messages", 1, "content", value={"text": "a"})),
    ("chat.orphan", remove("messages", 2)),
    ("chat.other_call", put("messages", 3, "tool_call_id", value="call_a3")),
    ("chat.result_twice", repeat("messages", 3, at=4)),
    ("chat.unanswered", remove("messages", 4)),
    ("chat.unanswered", repeat("messages", 1, at=3)),
    ("chat.no_calls", put("messages", 2, "tool_calls", value=[])),
    ("chat.call_id", put("messages", 2, "tool_calls", 0, "id", value="a" * 41)),
    ("responses.none", put("input", value=[])),
    ("responses.role", put("input", 0, "role", value="tool")),
    ("responses.content", put("input", 0, "content", 0, "type", value="text")),
    ("responses.id", put("input", 2, "id", value="call_a1")),
    ("responses.twice", repeat("input", 2)),
    ("responses.orphan", put("input", 4, "call_id", value="call_a3")),
    ("responses.unanswered", remove("input", 4)),
    ("responses.reasoning_alone", remove("input", slice(2, None))),
    ("responses.reasoning_missing", remove("input", 1)),
    ("responses.encrypted", put("input", 1, "encrypted_content", value="forged-content")),
    ("responses.unknown", put("input", 1, value={"type": "reasoning", "id": "rs_other", "summary": []})),
    ("generate.none", put("contents", value=[])),
    ("generate.role", put("contents", 1, "role", value="assistant")),
    ("generate.empty", put("contents", 0, "parts", value=[])),
    ("generate.part", put("contents", 0, "parts", value=[{}])),
    ("generate.call_turn", remove("contents", 0)),
    ("generate.response_turn", remove("contents", 1)),
    ("generate.count", remove("contents", 2, "parts", 1)),
    ("generate.count", put("contents", 2, "parts", value=[{"text": "Go on."}])),
    ("generate.last", remove("contents", 2)),
    ("generate.thought_missing", remove(*MODEL, 1, "thoughtSignature")),
    ("generate.thought", put(*MODEL, 1, "thoughtSignature", value="Zm9yZ2Vk")),
    ("generate.thought", put(*MODEL, 1, "functionCall", "args", value={"path": "c"})),
)


SIZES = {
    "messages.window": ("messages", 1_001),
    "messages.window_with_answer": ("messages", 901),
    "chat.window": ("chat", 1_001),
    "responses.window": ("responses", 1_001),
    "generate.window": ("generate", 1_001),
}


def test_every_rule_is_broken_here() -> None:
    assert {rule for rule, _ in BREAKS} | set(SIZES) == set(ROWS)
    assert all(row.seen and row.documented for row in ROWS.values())


@pytest.mark.parametrize("api", APIS)
def test_a_good_request_is_taken(api: Api) -> None:
    issued, good = make_requests()
    assert find_refusal(api, good[api], issued=issued, tokens=900, window=WINDOW) is None


@pytest.mark.parametrize(("rule", "breaks"), BREAKS)
def test_a_request_that_breaks_a_rule_is_refused_in_the_providers_words(rule: str, breaks: Break) -> None:
    issued, good = make_requests()
    body = deepcopy(good[rule.partition(".")[0]])
    breaks(body)
    refused = find_refusal(rule.partition(".")[0], body, issued=issued)
    assert refused is not None
    assert (refused.rule, refused.status) == (rule, ROWS[rule].status)
    assert refused.message.startswith(ROWS[rule].answer.partition("{")[0])
    assert "{" not in refused.message


@pytest.mark.parametrize("rule", SIZES)
def test_what_is_too_long_is_refused_with_both_sizes(rule: str) -> None:
    api, tokens = SIZES[rule]
    issued, good = make_requests()
    refused = find_refusal(api, good[api], issued=issued, tokens=tokens, window=WINDOW)
    assert refused is not None
    assert refused.rule == rule
    assert api == "responses" or ("1000" in refused.message and str(tokens) in refused.message)


@pytest.mark.parametrize("api", APIS)
def test_a_refusal_has_the_shape_of_its_api(api: Api) -> None:
    refused = find_refusal(api, {})
    assert refused is not None
    error = refused.body["error"]
    if api == "messages":
        assert (refused.body["type"], error["type"]) == ("error", "invalid_request_error")
    elif api == "generate":
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    else:
        assert set(error) == {"message", "type", "param", "code"}


def test_what_is_taken_although_it_looks_odd() -> None:
    issued, good = make_requests()
    in_a_row = good["messages"]["messages"]
    in_a_row[2:] = [{"role": "user", "content": [block]} for block in in_a_row[2]["content"]]
    assert find_refusal("messages", good["messages"], issued=issued) is None, "turns of one role in a row are one turn"
    old = [*in_a_row, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    remove("messages", 1, "content", 0)({"messages": old})
    assert find_refusal("messages", {"max_tokens": 1, "messages": old}, issued=issued) is None, (
        "old thinking may be left out"
    )
    for at in (1, 3):
        issued, asked = make_requests()
        body = add_system(asked["messages"], at)
        assert find_refusal("messages", body, issued=issued) is None, "newer models take system messages in the list"
    issued, good = make_requests()
    later = [*good["generate"]["contents"], {"role": "model", "parts": [{"text": "Done."}]}]
    later.append({"role": "user", "parts": [{"text": "Thanks."}]})
    remove("contents", 1, "parts", 1, "thoughtSignature")({"contents": later})
    assert find_refusal("generate", {"contents": later}, issued=issued) is None, "of earlier turns none is asked for"


def test_the_rules_know_nothing_of_this_project() -> None:
    assert not re.search(
        r"^\s*(?:from|import) (?:tenfold|tests)\b", Path(provider_rules.__file__).read_text(), re.MULTILINE
    )


# -- what providers took -----------------------------------------------------------------------------------------------


def read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_claude_code(path: Path) -> list[Json]:
    """The messages of a session file, lines of one answer joined."""
    messages: list[Json] = []
    ids: list[object] = []
    for line in read_lines(path):
        if line.get("type") not in ("user", "assistant") or line.get("isSidechain") or line.get("isMeta"):
            continue
        message = line["message"]
        if ids and message.get("id") is not None and message["id"] == ids[-1]:
            messages[-1]["content"].extend(message["content"])
            continue
        ids.append(message.get("id"))
        content = message["content"]
        messages.append({"role": message["role"], "content": content if isinstance(content, str) else list(content)})
    return messages


def split_requests(messages: list[Json], role: str = "role", other: str = "assistant") -> list[list[Json]]:
    """The lists that were sent: what stood before each answer, which a file may hold in several messages."""
    mine = [message.get(role) == other for message in messages]
    return [messages[:n] for n in range(1, len(messages)) if mine[n] and not mine[n - 1]]


def read_responses() -> list[list[Json]]:
    """The inputs that a Codex session sent: what stood before each answer, up to the results of its calls."""
    items = [
        line["payload"] for line in read_lines(SESSIONS / "tracker.codex.jsonl") if line["type"] == "response_item"
    ]
    ends = [n for n, item in enumerate(items) if item["type"] == "function_call_output"]
    return [items[: n + 1] for n in ends if items[n + 1 : n + 2] and items[n + 1]["type"] != "function_call_output"]


def read_large_conversation() -> list[Json]:
    """The messages of a session file that begins in the middle of an exchange, from the first words of the user."""
    messages = read_claude_code(DATA / "claude-code" / "large-conversation.jsonl")
    spoken = [n for n, one in enumerate(messages) if one["role"] == "user" and "tool_result" not in str(one)]
    return messages[spoken[0] :]


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text(encoding="utf-8"))


foreign = pytest.mark.skipif(not DATA.is_dir(), reason="TENFOLD_SESSIONS is not set")
HISTORY = DATA / "gemini-cli" / "NotFollowingUserIntent.json"


@pytest.mark.parametrize(
    ("api", "key", "read_requests"),
    [
        ("chat", "messages", lambda: split_requests(read_json(SESSIONS / "desk.openai-chat.json"))),
        ("responses", "input", read_responses),
        ("messages", "messages", lambda: split_requests(read_claude_code(SESSIONS / "pricing.claude-code.jsonl"))),
        pytest.param("messages", "messages", lambda: split_requests(read_large_conversation()), marks=foreign),
        pytest.param("generate", "contents", lambda: split_requests(read_json(HISTORY), other="model"), marks=foreign),
    ],
)
def test_recorded_requests_that_providers_took_are_taken(
    api: Api, key: str, read_requests: Callable[[], list[list[Json]]]
) -> None:
    sent = read_requests()
    assert len(sent) > 10
    assert [r for one in sent if (r := find_refusal(api, {"max_tokens": 1, key: one})) is not None] == []


@foreign
def test_requests_of_others_that_providers_took_are_taken() -> None:
    for path in (DATA / "openhands-requests").glob("django*.json"):
        assert find_refusal("chat", {"messages": read_json(path)["messages"]}) is None
