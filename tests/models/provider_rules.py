"""Holds a request against what the real APIs refuse: the rules of provider_rows.toml, blind to this project.

`find_refusal` gives what the provider would answer, or None. What a server has signed it keeps in an `Issued`:
thinking, reasoning and thoughts come back as they were given, or not at all where the API allows that.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]


class Row(Struct, frozen=True):
    """One rule: what is documented, what is answered to a request that breaks it, and where that was seen."""

    documented: str
    answer: str
    seen: str
    param: str | None = None
    code: str | None = None
    status: int = 400


ROWS = msgspec.convert(tomllib.loads(Path(__file__).with_name("provider_rows.toml").read_text("utf-8")), dict[str, Row])
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PLACEHOLDER = "skip_thought_signature_validator"
"""What Google documents for calls of a history that another model made."""


class Refusal(Struct, frozen=True):
    """What a provider answers. `rule` is its row's name, `body` the JSON in the shape of that API."""

    rule: str
    status: int
    body: Json

    @property
    def message(self) -> str:
        """The sentence that says why."""
        return str(self.body["error"]["message"])


class _Broken(Exception):
    """The first rule that a request breaks, with what its row's texts name."""

    def __init__(self, rule: str, **named: object) -> None:
        self.rule, self.named = rule, named


class Issued:
    """What a server has signed. `note` is given each whole answer as it is sent; without `knows` none is checked."""

    def __init__(self, *, knows: bool = True) -> None:
        self.knows = knows
        self.thinking: dict[str, str] = {}
        """Anthropic: the text of a signature; of redacted thinking the data, and no text."""
        self.thought: dict[str, list[str]] = {}
        """Anthropic: the signatures of the answer that made a call, in order."""
        self.reasoning: dict[str, tuple[str, str]] = {}
        """Responses: the encrypted content of a reasoning item, and the id of the item it led to."""
        self.marks: dict[str, str] = {}
        """Google: the part that a thoughtSignature was given with."""

    def note(self, api: str, answer: Json) -> None:
        """Remembers the signatures of an answer."""
        if api == "messages":
            signed = [b.get("signature") or b["data"] for b in answer["content"] if "thinking" in b["type"]]
            self.thinking.update((b["signature"], b["thinking"]) for b in answer["content"] if b["type"] == "thinking")
            self.thinking.update((b["data"], "") for b in answer["content"] if b["type"] == "redacted_thinking")
            self.thought.update((b["id"], signed) for b in answer["content"] if b["type"] == "tool_use")
        elif api == "responses":
            for item, then in zip(answer["output"], answer["output"][1:], strict=False):
                if item["type"] == "reasoning":
                    self.reasoning[item["id"]] = (item["encrypted_content"], then["id"])
        elif api == "generate":
            for part in answer["candidates"][0]["content"]["parts"]:
                if "thoughtSignature" in part:
                    self.marks[_decode_signature(part["thoughtSignature"])] = _describe_part(part)


def find_refusal(
    api: str, body: Json, *, issued: Issued | None = None, tokens: int = 0, window: int | None = None
) -> Refusal | None:
    """What the provider answers to a request it refuses, None for one it takes.

    Without `issued` any signature is taken for a good one. `tokens` is how long the request is, `window` how much the
    model takes. Raises `KeyError` for an API that is not known here.
    """
    try:
        _CHECKS[api](body, issued or Issued(knows=False), _make_size_check(api, body, tokens, window))
    except _Broken as broken:
        return _build_refusal(broken)
    return None


def _build_refusal(broken: _Broken) -> Refusal:
    row, api = ROWS[broken.rule], broken.rule.split(".")[0]
    message = row.answer.format_map(broken.named)
    if api == "messages":
        error: Json = {"type": "invalid_request_error", "message": message}
        return Refusal(broken.rule, row.status, {"type": "error", "error": error, "request_id": "req_1"})
    if api == "generate":
        error = {"code": row.status, "message": message, "status": "INVALID_ARGUMENT"}
        return Refusal(broken.rule, row.status, {"error": error})
    param = row.param and row.param.format_map(broken.named)
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": row.code}
    return Refusal(broken.rule, row.status, {"error": error})


def _make_size_check(api: str, body: Json, tokens: int, window: int | None) -> Callable[[], None]:
    """The check of the size; an API makes it after those of the form."""

    def check() -> None:
        if window is None:
            return
        more = {"messages": body.get("max_tokens"), "chat": body.get("max_completion_tokens", body.get("max_tokens"))}
        wanted = more.get(api) or 0
        if wanted >= window:  # a client's own default, for the model that a small window here stands for
            wanted = 0
        named = {"sent": tokens, "limit": window, "more": wanted, "total": tokens + wanted}
        if tokens > window or (api == "chat" and tokens + wanted > window):
            raise _Broken(f"{api}.window", **named)
        if tokens + wanted > window:
            raise _Broken(f"{api}.window_with_answer", **named)

    return check


# -- Anthropic ---------------------------------------------------------------------------------------------------------

_Turn = tuple[int, str, list[Json]]
"""The number of a turn's first message, its role, and its blocks."""
_SAID = {"text", "thinking", "redacted_thinking", "tool_use"}
_ASKED = {"text", "image", "document", "tool_result", "search_result"}
_ORDERED = {"text", "tool_addition", "tool_removal"}
_TAKES_SYSTEM = re.compile(r"claude-opus-(?:4-8|5)")
"""Models that take system messages in the list (simonw/llm-anthropic#73). Others are asked in other words."""


def _check_messages(body: Json, issued: Issued, fits: Callable[[], None]) -> None:
    if not isinstance(body.get("max_tokens"), int):
        raise _Broken("messages.max_tokens")
    if not body.get("messages"):
        raise _Broken("messages.none")
    messages = _take_out_system(body["messages"], str(body.get("model")))
    called: set[str] = set()
    turns: list[_Turn] = []
    for n, message in enumerate(messages):
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise _Broken("messages.role", role=role)
        blocks = _check_blocks(n, role, message.get("content"), called)
        if turns and turns[-1][1] == role:  # turns of one role in a row are one turn
            turns[-1][2].extend(blocks)
        else:
            turns.append((n, role, list(blocks)))
    if turns[0][1] != "user":
        raise _Broken("messages.first")
    for at, (n, role, blocks) in enumerate(turns):
        if role == "user":
            _check_pairs(n, blocks, turns[at - 1] if at else (0, "", []))
    if turns[-1][1] != "user":
        unanswered = [b["id"] for b in turns[-1][2] if b["type"] == "tool_use"]
        if unanswered:
            raise _Broken("messages.unanswered", n=turns[-1][0], ids=", ".join(unanswered))
        raise _Broken("messages.last")
    _check_thinking(messages, turns, issued, manual=(body.get("thinking") or {}).get("type") == "enabled")
    fits()


def _take_out_system(messages: Sequence[Json], model: str) -> list[Json]:
    """The messages without those of the system, each of which stands where the model takes it."""
    if not _TAKES_SYSTEM.match(model):
        return list(messages)
    for n, message in enumerate(messages):
        if message.get("role") != "system" or _is_directive(message):
            continue
        _check_blocks(n, "system", message.get("content"), set())
        if not n:
            raise _Broken("messages.system_first", n=n)
        after = messages[n + 1].get("role") if n + 1 < len(messages) else "assistant"
        if after != "assistant" or messages[n - 1].get("role") != "user":
            raise _Broken("messages.system_place", n=n)
    return [message for message in messages if message.get("role") != "system"]


def _is_directive(message: Json) -> bool:
    """Whether a system message holds settings and no words, as Claude Code sends it: it may stand anywhere."""
    return message.get("content") == [] and "output_config" in message


def _check_blocks(n: int, role: str, content: object, called: set[str]) -> list[Json]:
    """The blocks of a message, each of a kind that its role may have. Adds the ids of calls to `called`."""
    if not content:
        raise _Broken("messages.empty", n=n)
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    assert isinstance(content, list)
    for m, block in enumerate(content):
        kind = block.get("type")
        if kind not in {"assistant": _SAID, "system": _ORDERED}.get(role, _ASKED):
            raise _Broken("messages.block", n=n, m=m, kind=kind)
        if kind == "text" and not block.get("text", "").strip():
            raise _Broken("messages.empty_text")
        if kind == "tool_use":
            if not _ID.fullmatch(block.get("id", "")):
                raise _Broken("messages.call_id", n=n, m=m)
            if block["id"] in called:
                raise _Broken("messages.call_twice", n=n, m=m)
            called.add(block["id"])
    return content


def _check_pairs(n: int, blocks: Sequence[Json], before: _Turn) -> None:
    """Each call of the turn before is answered at the beginning of this one, and nothing else is."""
    open_calls = [b["id"] for b in before[2] if b["type"] == "tool_use"]
    answered: list[str] = []
    begins = True
    for m, block in enumerate(blocks):
        if block["type"] != "tool_result":
            begins = False
            continue
        call = str(block.get("tool_use_id"))
        if call not in open_calls:
            raise _Broken("messages.orphan", n=n, m=m, ids=call)
        if call in answered:
            raise _Broken("messages.result_twice", n=n, m=m, ids=call)
        if begins:
            answered.append(call)
    missing = [call for call in open_calls if call not in answered]
    if missing:
        raise _Broken("messages.unanswered", n=before[0], ids=", ".join(missing))


def _check_thinking(messages: Sequence[Json], turns: Sequence[_Turn], issued: Issued, *, manual: bool) -> None:
    """Thinking leads its message and is what was signed; that of the newest answer is complete."""
    latest = max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    for n, message in enumerate(messages):
        if message["role"] != "assistant" or isinstance(message["content"], str):
            continue
        blocks = message["content"]
        thoughts = [b for b in blocks if b["type"] in ("thinking", "redacted_thinking")]
        if thoughts and thoughts[0] is not blocks[0]:
            raise _Broken("messages.thinking_first", n=n, kind=blocks[0]["type"])
        for m, block in enumerate(blocks):
            _check_signature(n, m, block, issued, latest=n == latest)
        given = next(
            (issued.thought[b["id"]] for b in blocks if b["type"] == "tool_use" and b["id"] in issued.thought), []
        )
        sent = [b.get("signature") or b["data"] for b in thoughts]
        if issued.knows and sent != given and (sent or n == latest) and any(b["type"] == "tool_use" for b in blocks):
            raise _Broken("messages.thinking_changed", n=n, m=0)
    if manual:
        _check_turn_thinking(turns)


def _check_signature(n: int, m: int, block: Json, issued: Issued, *, latest: bool) -> None:
    if block["type"] == "thinking":
        if not block.get("signature"):
            raise _Broken("messages.signature_missing", n=n, m=m)
        if not issued.knows:
            return
        text = issued.thinking.get(block["signature"])
        if text is None or (text != block.get("thinking") and not latest):
            raise _Broken("messages.signature", n=n, m=m)
        if text != block.get("thinking"):
            raise _Broken("messages.thinking_changed", n=n, m=m)
    elif block["type"] == "redacted_thinking" and issued.knows and block.get("data") not in issued.thinking:
        raise _Broken("messages.signature", n=n, m=m)


def _check_turn_thinking(turns: Sequence[_Turn]) -> None:
    """The last turn that uses tools, back to the user's last words, begins with thinking."""
    first: tuple[int, str] | None = None
    for n, role, blocks in reversed(turns):
        if role == "user" and any(b["type"] != "tool_result" for b in blocks):
            break
        if role == "assistant":
            first = n, blocks[0]["type"]
    if first is not None and "thinking" not in first[1]:
        raise _Broken("messages.thinking_missing", n=first[0], kind=first[1])


# -- OpenAI Chat -------------------------------------------------------------------------------------------------------

_KINDS = {dict: "an object", int: "an integer", float: "a decimal", bool: "a boolean"}


def _check_chat(body: Json, issued: Issued, fits: Callable[[], None]) -> None:
    del issued  # this API signs nothing
    messages = body.get("messages") or []
    if not messages:
        raise _Broken("chat.none")
    open_calls: dict[str, int | None] = {}  # where each was answered
    behind = False  # whether tool messages may stand here
    for n, message in enumerate(messages):
        role = message.get("role")
        if role not in ("system", "assistant", "user", "function", "tool", "developer"):
            raise _Broken("chat.role", n=n, role=role)
        _check_content(n, message)
        if role == "tool":
            _check_result(n, message.get("tool_call_id"), open_calls, behind=behind)
            continue
        _check_all_answered(n, open_calls)
        calls = message.get("tool_calls") if role == "assistant" else None
        if calls == []:
            raise _Broken("chat.no_calls", n=n)
        for m, call in enumerate(calls or ()):
            if len(call["id"]) > 40:
                raise _Broken("chat.call_id", n=n, m=m, more=len(call["id"]))
        open_calls = {call["id"]: None for call in calls or ()}
        behind = bool(calls)
    _check_all_answered(len(messages), open_calls)
    fits()


def _check_content(n: int, message: Json) -> None:
    content = message.get("content")
    if content is None:
        if not (message["role"] == "assistant" and (message.get("tool_calls") or message.get("refusal"))):
            raise _Broken("chat.content_null", n=n)
    elif not isinstance(content, str | list):
        raise _Broken("chat.content_type", n=n, kind=_KINDS[type(content)])


def _check_result(n: int, call: object, open_calls: dict[str, int | None], *, behind: bool) -> None:
    if not behind:
        raise _Broken("chat.orphan", n=n)
    if not isinstance(call, str) or call not in open_calls:
        raise _Broken("chat.other_call", n=n, ids=call)
    if open_calls[call] is not None:
        raise _Broken("chat.result_twice", n=n, m=open_calls[call], ids=call)
    open_calls[call] = n


def _check_all_answered(n: int, open_calls: Mapping[str, int | None]) -> None:
    missing = [call for call, at in open_calls.items() if at is None]
    if missing:
        raise _Broken("chat.unanswered", n=n, ids=", ".join(missing))


# -- OpenAI Responses --------------------------------------------------------------------------------------------------

_PREFIX = {"reasoning": "rs", "function_call": "fc"}


def _check_responses(body: Json, issued: Issued, fits: Callable[[], None]) -> None:
    items = body.get("input")
    if not items:
        raise _Broken("responses.none")
    if isinstance(items, str):
        return fits()
    calls: list[str] = []
    answered: set[str] = set()
    ids: set[str] = set()
    for n, item in enumerate(items):
        kind, given = item.get("type", "message"), item.get("id")
        prefix = _PREFIX.get(kind, "msg" if kind == "message" and item.get("role") == "assistant" else "")
        if given is not None and not str(given).startswith(prefix):
            raise _Broken("responses.id", n=n, ids=given, kind=prefix)
        if given in ids:
            raise _Broken("responses.twice", ids=given)
        ids |= {given} - {None}
        if kind == "message":
            _check_response_message(n, item)
        elif kind == "function_call":
            calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in calls:
                raise _Broken("responses.orphan", ids=item["call_id"])
            answered.add(item["call_id"])
    for call in calls:
        if call not in answered:
            raise _Broken("responses.unanswered", ids=call)
    _check_reasoning(items, issued)
    fits()
    return None


def _check_response_message(n: int, item: Json) -> None:
    """A message has a role that is known, and the parts that its role may have."""
    if item.get("role") not in ("user", "assistant", "system", "developer"):
        raise _Broken("responses.role", n=n, role=item.get("role"))
    content = item.get("content")
    mine = item.get("role") == "assistant"
    allowed = ("output_text", "refusal") if mine else ("input_text", "input_image", "input_file")
    for m, part in enumerate(content if isinstance(content, list) else ()):
        if part.get("type") not in allowed:
            others = " and ".join(f"'{kind}'" for kind in allowed)
            raise _Broken("responses.content", n=n, m=m, kind=part.get("type"), others=others)


def _check_reasoning(items: Sequence[Json], issued: Issued) -> None:
    """Reasoning is what was given and stands right before the item it led to, and that item has it."""
    needs = {then: rs for rs, (_, then) in issued.reasoning.items()}
    previous: Json = {}
    for item in items:
        kind, given = item.get("type"), item.get("id")
        if previous.get("type") == "reasoning" and kind not in ("message", "function_call", "reasoning"):
            raise _Broken("responses.reasoning_alone", ids=previous["id"])
        if kind == "reasoning" and issued.knows:
            known = issued.reasoning.get(given or "")
            encrypted = item.get("encrypted_content")
            if encrypted is None and known is None:
                raise _Broken("responses.unknown", ids=given)
            if encrypted is not None and (known is None or known[0] != encrypted):
                raise _Broken("responses.encrypted", ids=f"{encrypted[:4]}...{encrypted[-4:]}")
        elif given in needs and previous.get("id") != needs[given]:
            raise _Broken("responses.reasoning_missing", ids=given, more=needs[given])
        follows = issued.reasoning.get(previous.get("id") or "")
        if follows is not None and (given != follows[1] and given is not None):
            raise _Broken("responses.reasoning_alone", ids=previous["id"])
        previous = item
    if previous.get("type") == "reasoning":
        raise _Broken("responses.reasoning_alone", ids=previous["id"])


# -- Google ------------------------------------------------------------------------------------------------------------

_DATA = ("text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult")


def _check_generate(body: Json, issued: Issued, fits: Callable[[], None]) -> None:
    contents = body.get("contents") or []
    if not contents:
        raise _Broken("generate.none")
    previous = ""
    open_calls = 0
    for n, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model"):
            raise _Broken("generate.role")
        parts = _check_parts(n, content.get("parts") or [], issued)
        calls = sum("functionCall" in part for part in parts)
        responses = sum("functionResponse" in part for part in parts)
        if calls and previous not in ("user", "responses"):
            raise _Broken("generate.call_turn")
        if responses and previous != "calls":
            raise _Broken("generate.response_turn")
        if previous == "calls" and responses != open_calls:
            raise _Broken("generate.count")
        open_calls = calls
        previous = "calls" if calls else "responses" if responses else content.get("role", "user")
    if previous in ("model", "calls"):
        raise _Broken("generate.last")
    if issued.marks:
        _check_call_signatures(contents)
    fits()


def _check_parts(n: int, parts: list[Json], issued: Issued) -> list[Json]:
    """The parts, each with its data and with the signature that it was given, if it has one."""
    if not parts:
        raise _Broken("generate.empty", n=n)
    for m, part in enumerate(parts):
        if not any(key in part for key in _DATA):
            raise _Broken("generate.part", n=n, m=m)
        signature = part.get("thoughtSignature", "")
        mark = "" if signature == _PLACEHOLDER else _decode_signature(signature)  # gemini-cli sends it as it stands
        if issued.knows and mark not in ("", _PLACEHOLDER) and issued.marks.get(mark) != _describe_part(part):
            raise _Broken("generate.thought")
    return parts


def _check_call_signatures(contents: Sequence[Json]) -> None:
    """Since the user's last words, the first call of each step has a signature."""
    for n in range(len(contents) - 1, -1, -1):
        parts = contents[n]["parts"]
        if contents[n].get("role", "user") == "user":
            if any("functionResponse" not in part for part in parts):
                return
            continue
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and "thoughtSignature" not in first:
            raise _Broken("generate.thought_missing", ids=first["functionCall"]["name"], n=n + 1)


def _decode_signature(signature: str) -> str:
    """What a signature is the base64 of, in either alphabet."""
    try:
        return base64.b64decode(signature.translate({45: 43, 95: 47}) + "==").decode("latin-1")
    except binascii.Error:
        return signature


def _describe_part(part: Json) -> str:
    """What a signature is bound to: a call with its arguments; of a text only that it is one."""
    call = part.get("functionCall")
    return "text" if call is None else json.dumps([call["name"], call.get("args") or {}], sort_keys=True)


_CHECKS: Mapping[str, Callable[[Json, Issued, Callable[[], None]], None]] = {
    "messages": _check_messages,
    "chat": _check_chat,
    "responses": _check_responses,
    "generate": _check_generate,
}
