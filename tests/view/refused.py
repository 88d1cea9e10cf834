"""Requests that a provider refuses, each with the rule that has to name it, and where; and ones that it takes.

Each is made by hand, and breaks one rule. They are judged as they would be sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Native = Any
Step = list[Native]


class Fault(NamedTuple):
    """A request that is refused: the rule that it breaks, at which message, and the path from there."""

    name: str
    rule: str
    at: int
    path: str
    messages: Native


def ask(text: str = "What is in a.txt?") -> Native:
    return {"role": "user", "content": text}


def say(text: str = "It says hello.") -> Native:
    return {"role": "assistant", "content": text}


# -- Anthropic ---------------------------------------------------------------------------------------------------------

CACHED: dict[str, Native] = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "I should look.", "signature": "EqQBCg=="}


def use(*ids: str, **changed: Native) -> Native:
    calls = [{"type": "tool_use", "id": i, "name": "read", "input": {"path": "a.txt"}, **changed} for i in ids]
    return {"role": "assistant", "content": calls}


def give(*ids: str, **changed: Native) -> Native:
    results = [{"type": "tool_result", "tool_use_id": i, "content": "hello", **changed} for i in ids]
    return {"role": "user", "content": results}


def blocks(role: str, *given: Native) -> Native:
    return {"role": role, "content": list(given)}


def text(value: str = "hello", **changed: Native) -> Native:
    return {"type": "text", "text": value, **changed}


ANTHROPIC = [
    Fault("a result is missing at the end", "call_answered", 1, "", [ask(), use("t1", "t2"), give("t1")]),
    Fault("all results are missing at the end", "call_answered", 1, "", [ask(), use("t1")]),
    Fault("a result is missing in the middle", "call_answered", 1, "", [ask(), use("t1"), ask("And?")]),
    Fault("a result has no call", "result_follows_call", 1, "", [ask(), give("t1")]),
    Fault("a call has two results", "result_follows_call", 2, "", [ask(), use("t1"), give("t1", "t1")]),
    Fault("a result names another call", "result_follows_call", 2, "", [ask(), use("t1"), give("t1", "t9")]),
    Fault("words before the result", "results_together", 3, "", [ask(), use("t1"), ask("wait"), give("t1")]),
    Fault("a text before the result in its message", "results_together", 2, "",
          [ask(), use("t1"), blocks("user", text(), *give("t1")["content"])]),
    Fault("an id twice in an answer", "unique_call_ids", 1, "", [ask(), use("t1", "t1"), give("t1", "t1")]),
    Fault("an id again later", "unique_call_ids", 3, "", [ask(), use("t1"), give("t1"), use("t1"), give("t1"), ask()]),
    Fault("an id with a dot", "call_id", 1, "content[0].id", [ask(), use("call.1"), give("call.1")]),
    Fault("an empty id", "call_id", 1, "content[0].id", [ask(), use(""), give("")]),
    Fault("an id that is a number", "call_id", 1, "content[0].id", [ask(), use("t1", id=7), give("t1", tool_use_id=7)]),
    Fault("a call without a name", "part_fields", 1, "content[0].name", [ask(), use("t1", name=""), give("t1")]),
    Fault("arguments as a text", "part_fields", 1, "content[0].input", [ask(), use("t1", input="{}"), give("t1")]),
    Fault("arguments as null", "part_fields", 1, "content[0].input", [ask(), use("t1", input=None), give("t1")]),
    Fault("thinking without a signature", "thinking_signed", 1, "content[0].signature",
          [ask(), blocks("assistant", {"type": "thinking", "thinking": "hm"}, text()), ask()]),
    Fault("thinking with an empty signature", "thinking_signed", 1, "content[0].signature",
          [ask(), blocks("assistant", {**THOUGHT, "signature": ""}, text()), ask()]),
    Fault("redacted thinking without data", "thinking_signed", 1, "content[0].data",
          [ask(), blocks("assistant", {"type": "redacted_thinking"}, text()), ask()]),
    Fault("thinking alone", "thinking_with_step", 1, "", [ask(), blocks("assistant", THOUGHT), ask()]),
    Fault("thinking behind a text", "thinking_first", 1, "",
          [ask(), blocks("assistant", text(), THOUGHT, text()), ask()]),
    Fault("thinking of the user", "known_part", 0, "content[0].type", [blocks("user", THOUGHT, text())]),
    Fault("a text where blocks belong", "content_form", 0, "content[0]",
          [{"role": "user", "content": ["hello", text()]}]),
    Fault("one block where a list belongs", "content_form", 0, "content", [{"role": "user", "content": text()}]),
    Fault("no content", "content_form", 0, "content", [{"role": "user"}]),
    Fault("null as content", "content_form", 1, "content", [ask(), {"role": "assistant", "content": None}, ask()]),
    Fault("an object as the content of a result", "content_form", 2, "content[0].content",
          [ask(), use("t1"), give("t1", content={"output": "hello"})]),
    Fault("texts as the content of a result", "content_form", 2, "content[0].content[0]",
          [ask(), use("t1"), give("t1", content=["hello"])]),
    Fault("a result by the assistant", "known_part", 2, "content[0].type",
          [ask(), use("t1"), blocks("assistant", *give("t1")["content"]), ask()]),
    Fault("a call by the user", "known_part", 0, "content[1].type", [blocks("user", text(), *use("t1")["content"])]),
    Fault("an unknown block", "known_part", 0, "content[0].type", [blocks("user", {"type": "hologram", "data": "x"})]),
    Fault("a block of another provider", "known_part", 0, "content[0].type",
          [blocks("user", {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})]),
    Fault("a block without a type", "known_part", 0, "content[0].type", [blocks("user", {"text": "hello"})]),
    Fault("a text block without text", "part_fields", 0, "content[0].text", [blocks("user", {"type": "text"})]),
    Fault("an image without a source", "part_fields", 0, "content[0].source", [blocks("user", {"type": "image"})]),
    Fault("five cache marks", "cache_marks", 0, "content[4].cache_control", [blocks("user", *[text(**CACHED)] * 5)]),
    Fault("a fifth cache mark inside a result", "cache_marks", 2, "content[0].content[4].cache_control",
          [ask(), use("t1"), give("t1", content=[text(**CACHED)] * 5)]),
    Fault("a cache mark on thinking", "cache_marks", 1, "content[0].cache_control",
          [ask(), blocks("assistant", {**THOUGHT, **CACHED}, text()), ask()]),
    Fault("an unknown role", "known_role", 0, "role", [{"role": "tool", "content": "hello"}]),
    Fault("no role", "known_role", 0, "role", [{"content": "hello"}]),
    Fault("a text in place of a message", "message_form", 1, "", [ask(), '"hello"']),
    Fault("a text in place of the list", "message_form", 0, "", "hello"),
    Fault("a request in place of its list", "message_form", 0, "", {"messages": [ask()]}),
    Fault("an answer first", "first_message", 0, "", [say(), ask()]),
    Fault("an answer last", "last_message", 1, "", [ask(), say()]),
    Fault("an empty text block", "no_empty_text", 0, "", [blocks("user", text(), text(" "))]),
    Fault("an empty text", "no_empty_message", 0, "", [ask(""), say(), ask()]),
    Fault("an empty list of blocks", "no_empty_message", 1, "", [ask(), blocks("assistant"), ask()]),
    Fault("a system message between", "system_place", 1, "", [ask(), {"role": "system", "content": "s"}, ask()]),
    Fault("an empty list", "not_empty", 0, "", []),
]  # fmt: skip

# -- OpenAI Chat -------------------------------------------------------------------------------------------------------


def call(*ids: str, **changed: Native) -> Native:
    function = {"name": "read", "arguments": '{"path": "a.txt"}', **changed}
    calls = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(call: str, **changed: Native) -> Native:
    return {"role": "tool", "tool_call_id": call, "content": "hello", **changed}


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}

CHAT = [
    Fault("one of two results is missing at the end", "call_answered", 1, "", [ask(), call("c1", "c2"), answer("c1")]),
    Fault("all results are missing at the end", "call_answered", 1, "", [ask(), call("c1")]),
    Fault("a result is missing in the middle", "call_answered", 1, "", [ask(), call("c1"), ask("And?")]),
    Fault("a result has no call", "result_follows_call", 1, "", [ask(), answer("c1")]),
    Fault("a call has two results", "result_follows_call", 3, "", [ask(), call("c1"), answer("c1"), answer("c1")]),
    Fault("words before the result", "results_together", 3, "", [ask(), call("c1"), ask("wait"), answer("c1")]),
    Fault("an id twice", "unique_call_ids", 1, "", [ask(), call("c1", "c1"), answer("c1"), answer("c1")]),
    Fault("a long id", "call_id", 1, "tool_calls[0].id", [ask(), call("c" * 65), answer("c" * 65)]),
    Fault("an id of 41 characters", "call_id", 1, "tool_calls[0].id", [ask(), call("c" * 41), answer("c" * 41)]),
    Fault("a result without an id", "call_id", 2, "tool_call_id",
          [ask(), call("c1"), {"role": "tool", "content": "x"}]),
    Fault("arguments as an object", "part_fields", 1, "tool_calls[0].function.arguments",
          [ask(), call("c1", arguments={"path": "a.txt"}), answer("c1")]),
    Fault("a call without arguments", "part_fields", 1, "tool_calls[0].function.arguments",
          [ask(), call("c1", arguments=None), answer("c1")]),
    Fault("a call without a name", "part_fields", 1, "tool_calls[0].function.name",
          [ask(), call("c1", name=""), answer("c1")]),
    Fault("a call that is no function", "part_fields", 1, "tool_calls[0].function",
          [ask(), {**say(""), "tool_calls": [{"id": "c1", "type": "function"}]}, answer("c1")]),
    Fault("an empty list of calls", "part_fields", 1, "tool_calls", [ask(), {**say(), "tool_calls": []}, ask()]),
    Fault("calls that are no list", "part_fields", 1, "tool_calls", [ask(), {**say(), "tool_calls": "read"}, ask()]),
    Fault("a call of an unknown type", "known_part", 1, "tool_calls[0].type",
          [ask(), {**say(), "tool_calls": [{"id": "c1", "type": "tool_use"}]}, ask()]),
    Fault("null as content of the user", "content_form", 0, "content", [{"role": "user", "content": None}]),
    Fault("null as content of an answer", "content_form", 1, "content", [ask(), {**say(), "content": None}, ask()]),
    Fault("null as content of a result", "content_form", 2, "content", [ask(), call("c1"), answer("c1", content=None)]),
    Fault("no content", "content_form", 0, "content", [{"role": "user"}]),
    Fault("an object as content", "content_form", 0, "content", [{"role": "user", "content": {"text": "hello"}}]),
    Fault("a text where parts belong", "content_form", 0, "content[0]", [{"role": "user", "content": ["hello"]}]),
    Fault("an unknown part", "known_part", 0, "content[0].type", [blocks("user", {"type": "tool_use", "id": "c1"})]),
    Fault("a picture by the assistant", "known_part", 1, "content[0].type",
          [ask(), blocks("assistant", PICTURE), ask()]),
    Fault("a picture as a result", "known_part", 2, "content[0].type",
          [ask(), call("c1"), answer("c1", content=[PICTURE])]),
    Fault("a picture as a text", "part_fields", 0, "content[0].image_url",
          [blocks("user", {"type": "image_url", "image_url": "https://example.org/a.png"})]),
    Fault("an unknown role", "known_role", 0, "role", [{"role": "bot", "content": "hello"}]),
    Fault("a number in place of a message", "message_form", 0, "", ["7"]),
    Fault("an empty list", "not_empty", 0, "", []),
]  # fmt: skip

# -- OpenAI Responses --------------------------------------------------------------------------------------------------


def function(call: str = "c1", **changed: Native) -> Native:
    return {"type": "function_call", "call_id": call, "name": "read", "arguments": "{}", **changed}


def output(call: str = "c1", **changed: Native) -> Native:
    return {"type": "function_call_output", "call_id": call, "output": "hello", **changed}


def reason(id: str = "rs_1", **changed: Native) -> Native:
    return {"type": "reasoning", "id": id, "summary": [], **changed}


def item(role: str, kind: str, **changed: Native) -> Native:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": "hello"}], **changed}


RESPONSES = [
    Fault("an output is missing at the end", "call_answered", 1, "",
          [ask(), function("c1"), function("c2"), output("c1")]),
    Fault("all outputs are missing", "call_answered", 1, "", [ask(), function(), ask()]),
    Fault("an output has no call", "result_follows_call", 1, "", [ask(), output()]),
    Fault("an output stands before its call", "result_follows_call", 1, "", [ask(), output(), function(), output()]),
    Fault("an item twice", "unique_item_ids", 3, "id",
          [ask(), function(id="fc_1"), output(), function("c2", id="fc_1"), output("c2")]),
    Fault("a message twice", "unique_item_ids", 3, "id",
          [ask(), item("assistant", "output_text", id="msg_1"), ask(), item("assistant", "output_text", id="msg_1"),
           ask()]),
    Fault("a reference twice", "unique_item_ids", 1, "id", [*[{"type": "item_reference", "id": "fc_1"}] * 2, ask()]),
    Fault("a call of a namespace that is gone", "call_defined", 1, "namespace",
          [ask(), function(namespace="crm"), output()]),
    Fault("reasoning alone", "thinking_with_step", 1, "", [ask(), reason(), ask()]),
    Fault("reasoning without a summary", "part_fields", 1, "summary", [ask(), reason(summary=None), say(), ask()]),
    Fault("a long id", "call_id", 1, "call_id", [ask(), function("c" * 65), output("c" * 65)]),
    Fault("a call without an id", "call_id", 1, "call_id", [ask(), function(call_id=None), output()]),
    Fault("an item with the id of its call", "item_id", 1, "id",
          [ask(), function("call_1", id="call_1"), output("call_1")]),
    Fault("arguments as an object", "part_fields", 1, "arguments", [ask(), function(arguments={}), output()]),
    Fault("a call without a name", "part_fields", 1, "name", [ask(), function(name=""), output()]),
    Fault("an output without content", "part_fields", 2, "output", [ask(), function(), output(output=None)]),
    Fault("an output as an object", "part_fields", 2, "output", [ask(), function(), output(output={"a": 1})]),
    Fault("the user's text as an output", "known_part", 0, "content[0].type", [item("user", "output_text")]),
    Fault("an answer's text as an input", "known_part", 1, "content[0].type",
          [ask(), item("assistant", "input_text"), ask()]),
    Fault("a part of Chat", "known_part", 0, "content[0].type", [item("user", "text")]),
    Fault("an unknown item", "known_part", 1, "type", [ask(), {"type": "tool_use", "id": "x"}]),
    Fault("an unknown role", "known_role", 1, "role", [ask(), {"role": "tool", "content": "hello"}]),
    Fault("null as content", "content_form", 0, "content", [{"role": "user", "content": None}]),
    Fault("a text where parts belong", "content_form", 0, "content[0]", [{"role": "user", "content": ["hello"]}]),
    Fault("a list in place of an item", "message_form", 0, "", ["[]"]),
    Fault("an empty list", "not_empty", 0, "", []),
]  # fmt: skip

# -- Gemini ------------------------------------------------------------------------------------------------------------


def content(role: str, *parts: Native) -> Native:
    return {"role": role, "parts": list(parts)}


def run(name: Native = "read", **changed: Native) -> Native:
    return {"functionCall": {"name": name, "args": {"path": "a.txt"}, **changed}}


def respond(name: Native = "read", **changed: Native) -> Native:
    return {"functionResponse": {"name": name, "response": {"output": "hello"}, **changed}}


HELLO = content("user", {"text": "hello"})

GEMINI = [
    Fault("fewer responses than calls", "call_answered", 1, "",
          [HELLO, content("model", run(), run()), content("user", respond())]),
    Fault("fewer responses than calls in the middle", "call_answered", 1, "",
          [HELLO, content("model", run(), run("list")), content("user", respond()), content("model", {"text": "a"}),
           HELLO]),
    Fault("more responses than calls", "result_follows_call", 2, "",
          [HELLO, content("model", run()), content("user", respond(), respond())]),
    Fault("no response", "call_answered", 1, "", [HELLO, content("model", run())]),
    Fault("a response without a call", "result_follows_call", 1, "", [HELLO, content("user", respond())]),
    Fault("a response to another tool", "result_follows_call", 2, "",
          [HELLO, content("model", run()), content("user", respond("list"))]),
    Fault("words before the response", "results_together", 3, "",
          [HELLO, content("model", run()), HELLO, content("user", respond())]),
    Fault("a call first", "first_message", 0, "", [content("model", run()), content("user", respond())]),
    Fault("a call after an answer", "call_after_user", 2, "",
          [HELLO, content("model", {"text": "a"}), content("model", run()), content("user", respond())]),
    Fault("an answer last", "last_message", 1, "", [HELLO, content("model", {"text": "a"})]),
    Fault("no parts", "no_empty_message", 0, "", [content("user"), content("model", {"text": "a"}), HELLO]),
    Fault("no list of parts", "content_form", 0, "parts", [{"role": "user"}]),
    Fault("a text where parts belong", "content_form", 0, "parts", [{"role": "user", "parts": "hello"}]),
    Fault("a text where a part belongs", "content_form", 0, "parts[0]", [{"role": "user", "parts": ["hello"]}]),
    Fault("an empty part", "known_part", 0, "parts[1]", [content("user", {"text": "a"}, {})]),
    Fault("a part with a signature only", "known_part", 1, "parts[0]",
          [HELLO, content("model", {"thoughtSignature": "x"}), HELLO]),
    Fault("a part of another provider", "known_part", 0, "parts[0]",
          [content("user", {"type": "image", "source": {}})]),
    Fault("a part with two kinds of data", "part_fields", 0, "parts[0]",
          [content("user", {"text": "a", "inlineData": {"mimeType": "image/png", "data": "QQ=="}})]),
    Fault("a call by the user", "known_part", 0, "parts[0]", [content("user", run())]),
    Fault("a response by the model", "known_part", 2, "parts[0]",
          [HELLO, content("model", run()), content("model", respond()), HELLO]),
    Fault("a call without a name", "part_fields", 1, "parts[0].functionCall.name",
          [HELLO, content("model", run("")), content("user", respond(""))]),
    Fault("arguments as a text", "part_fields", 1, "parts[0].functionCall.args",
          [HELLO, content("model", run(args="{}")), content("user", respond())]),
    Fault("a response as a text", "part_fields", 2, "parts[0].functionResponse.response",
          [HELLO, content("model", run()), content("user", respond(response="hello"))]),
    Fault("a response as a list", "part_fields", 2, "parts[0].functionResponse.response",
          [HELLO, content("model", run()), content("user", respond(response=["hello"]))]),
    Fault("a response without a name", "part_fields", 2, "parts[0].functionResponse.name",
          [HELLO, content("model", run()), content("user", respond(None))]),
    Fault("the role of another provider", "known_role", 1, "role", [HELLO, content("assistant", {"text": "a"}), HELLO]),
    Fault("a text in place of a content", "message_form", 0, "", ['"hello"']),
    Fault("an empty list", "not_empty", 0, "", []),
]  # fmt: skip

CUT = "cut \ud83d here"
CUT_CHAT = Fault("a cut emoji", "whole_characters", 0, "content", [{"role": "user", "content": CUT}])
CUT_ITEM = item("user", "input_text", content=[{"type": "input_text", "text": CUT}])
FAULTS: dict[str, list[Fault]] = {
    "anthropic": [*ANTHROPIC, CUT_CHAT],
    "openai-chat": [*CHAT, CUT_CHAT],
    "openai-responses": [*RESPONSES, Fault("a cut emoji", "whole_characters", 0, "content[0].text", [CUT_ITEM])],
    "gemini": [
        *GEMINI,
        Fault("a cut emoji", "whole_characters", 0, "parts[0].text", [content("user", {"text": CUT})]),
        Fault("a cut emoji in a name", "whole_characters", 1, "parts[0].functionCall.args.a\ufffd",
              [HELLO, content("model", run(args={"a\ud83d": "b"})), content("user", respond())]),
    ],
}  # fmt: skip

SERVER_CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SYSTEM = {"role": "system", "content": "s"}

ACCEPTED: dict[str, dict[str, Native]] = {
    "anthropic": {
        "calls and results": [ask(), use("t1", "t2"), give("t2", "t1")],
        "results in two messages": [ask(), use("t1", "t2"), give("t1"), give("t2")],
        "a failed result without content": [ask(), use("t1"), give("t1", content=None, is_error=True)],
        "a picture as a result":
            [ask(), use("t1"),
             give("t1", content=[{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}])],
        "thinking before a call": [ask(), blocks("assistant", THOUGHT, *use("t1")["content"]), give("t1")],
        "thinking with an omitted text": [ask(), blocks("assistant", {**THOUGHT, "thinking": ""}, text()), ask()],
        "thinking after a search":
            [ask(), blocks("assistant", text(), SERVER_CALL, SERVER_RESULT, THOUGHT, text()), ask()],
        "an answer that a search interrupted": [ask(), blocks("assistant", text(), SERVER_CALL)],
        "a result of a tool of tomorrow":
            [ask(), blocks("assistant", SERVER_CALL, {**SERVER_RESULT, "type": "map_tool_result"}, text()), ask()],
        "four cache marks": [blocks("user", *[text(**CACHED)] * 4)],
        "marks that are null": [blocks("user", *[text(cache_control=None)] * 6)],
        "an answer as the SDK returns it":
            [ask(),
             {"id": "msg_1", "type": "message", **blocks("assistant", text(citations=None)), "stop_reason": None},
             ask()],
        "a system message before an answer": [ask(), SYSTEM, say(), ask()],
    },
    "openai-chat": {
        "calls and results": [SYSTEM, ask(), call("c1", "c2"), answer("c2"), answer("c1")],
        "an id again later": [ask(), call("c1"), answer("c1"), call("c1"), answer("c1")],
        "an id of 40 characters": [ask(), call("c" * 40), answer("c" * 40)],
        "an answer last": [ask(), say()],
        "a call without a type":
            [ask(), {**say(), "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": ""}}]},
             answer("c1", content="")],
        "a call without content": [ask(), {key: v for key, v in call("c1").items() if key != "content"}, answer("c1")],
        "a custom call":
            [ask(),
             {**say(), "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]},
             answer("c1")],
        "no calls as null": [ask(), {**say(), "tool_calls": None}, ask()],
        "a refusal": [ask(), {"role": "assistant", "content": None, "refusal": "No."}, ask()],
        "an old function": [ask(), {"role": "function", "name": "read", "content": None}],
        "an answer of reasoning": [ask(), {"role": "assistant", "content": None, "reasoning_content": "hm"}, ask()],
        "parts":
            [blocks("user", text(), PICTURE, {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})],
    },
    "openai-responses": {
        "reasoning, calls and outputs": [ask(), reason(), function("c1"), function("c2"), output("c2"), output("c1")],
        "a plain text": "hello",
        "a reference without a type": [{"id": "msg_1"}, ask()],
        "outputs of named calls": [ask(), {"type": "item_reference", "id": "fc_1"}, output()],
        "an answer as the API returns it":
            [ask(), item("assistant", "output_text", id="msg_1", status="completed"), ask()],
        "an output in parts": [ask(), function(), output(output=[{"type": "input_text", "text": "hello"}])],
        "a tool of tomorrow": [ask(), {"type": "map_search_call", "id": "ms_1"}, say()],
        "a compaction": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}, ask()],
        "an id of another server": [ask(), function(id="item-7"), output()],
    },
    "gemini": {
        "calls and responses": [HELLO, content("model", run(), run()), content("user", respond(), respond())],
        "a response with a text beside it": [HELLO, content("model", run()), content("user", respond(), {"text": "a"})],
        "a call without arguments":
            [HELLO, content("model", {"functionCall": {"name": "now"}}), content("user", respond("now"))],
        "snake case":
            [HELLO, content("model", {"function_call": {"name": "read", "args": {}}}),
             content("user", {"function_response": {"name": "read", "response": {}}})],
        "no role": [{"parts": [{"text": "hello"}]}],
        "a thought":
            [HELLO, content("model", {"text": "hm", "thought": True}, {"text": "", "thoughtSignature": "x"}), HELLO],
        "code":
            [HELLO, content("model", {"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}),
             HELLO],
    },
}  # fmt: skip
