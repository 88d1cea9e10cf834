"""Native messages of each wire, as Hypothesis draws them: well-formed steps with odd fields, blocks and white space."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

quick = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For all generated tests of the wires: nothing here depends on how fast the machine is."""

Json = object
Native = dict[str, object]

texts = st.text(st.characters(codec="utf-8"), max_size=12)
words = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=8)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts, values, max_size=2)
extras = st.dictionaries(st.sampled_from(["cache_control", "id", "ts", "x-unknown"]), values, max_size=2)


@st.composite
def json_arrays(draw: st.DrawFn, native: st.SearchStrategy[list[Native]]) -> bytes:
    """A list as the bytes of an array, in one of the ways people write JSON."""
    indent = draw(st.sampled_from([None, 0, 1, "\t"]))
    ascii_only = draw(st.booleans())
    text = json.dumps(draw(native), indent=indent, ensure_ascii=ascii_only)
    before, after = draw(st.sampled_from(["", " ", "\n", "\ufeff"])), draw(st.sampled_from(["", "\n", " \r\n"]))
    return (before + text + after).encode()


def _join_steps(steps: st.SearchStrategy[list[Native]]) -> st.SearchStrategy[list[Native]]:
    return st.lists(steps, min_size=1, max_size=3).map(lambda s: [m for step in s for m in step])


# -- anthropic ---------------------------------------------------------------------------------------------------------

_text = st.builds(lambda t, x: {"type": "text", "text": t, **x}, words, extras)
_image = st.builds(
    lambda d: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": d}}, words
)
_odd = st.builds(lambda x: {"type": "odd_block", **x}, extras)


@st.composite
def _anthropic_step(draw: st.DrawFn) -> list[Native]:
    user: Native = {"role": "user", "content": draw(words | st.lists(_text | _image | _odd, min_size=1, max_size=3))}
    calls = draw(st.lists(st.uuids().map(lambda u: f"toolu_{u.hex}"), max_size=3, unique=True))
    thinking = [{"type": "thinking", "thinking": draw(texts), "signature": draw(words)}] if draw(st.booleans()) else []
    said = [{"type": "text", "text": draw(words)}]
    uses = [{"type": "tool_use", "id": c, "name": draw(words), "input": draw(objects)} for c in calls]
    answer: Native = {"role": "assistant", "content": [*thinking, *said, *uses], **draw(extras)}
    if not calls:
        return [user, answer]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": c,
            "content": draw(words | st.lists(_text | _image, max_size=2)),
            "is_error": draw(st.booleans()),
        }
        for c in calls
    ]
    more = draw(st.lists(st.just({"type": "text", "text": "<system-reminder>x</system-reminder>"}) | _text, max_size=2))
    return [user, answer, {"role": "user", "content": [*results, *more], **draw(extras)}]


# -- openai-chat -------------------------------------------------------------------------------------------------------

_part = st.builds(lambda t: {"type": "text", "text": t}, words)
_picture = st.builds(lambda w: {"type": "image_url", "image_url": {"url": f"https://example.org/{w}"}}, words)


@st.composite
def _chat_step(draw: st.DrawFn) -> list[Native]:
    user: Native = {"role": "user", "content": draw(words | st.lists(_part | _picture | _odd, min_size=1, max_size=3))}
    system: list[Native] = [{"role": draw(st.sampled_from(["system", "developer"])), "content": draw(words)}]
    calls = draw(st.lists(st.uuids().map(lambda u: f"call_{u.hex}"), max_size=3, unique=True))
    answer: Native = {"role": "assistant", **draw(extras)}
    if not calls or draw(st.booleans()):
        answer["content"] = draw(words | st.lists(_part, min_size=1, max_size=2) | (st.none() if calls else words))
    if calls:
        answer["tool_calls"] = [
            {"id": c, "type": "function", "function": {"name": draw(words), "arguments": draw(objects.map(json.dumps))}}
            for c in calls
        ]
    results: list[Native] = [{"role": "tool", "tool_call_id": c, "content": draw(words)} for c in calls]
    return [*(system if draw(st.booleans()) else []), user, answer, *results]


# -- openai-responses --------------------------------------------------------------------------------------------------

_input = st.builds(lambda t: {"type": "input_text", "text": t}, words)


@st.composite
def _responses_step(draw: st.DrawFn) -> list[Native]:
    user: Native = {"role": "user", "content": draw(words | st.lists(_input | _odd, min_size=1, max_size=2))}
    out: list[Native] = [user]
    if draw(st.booleans()):
        secret = draw(st.none() | words)
        out.append(
            {"type": "reasoning", "id": f"rs_{draw(st.integers(0, 99))}", "summary": [], "encrypted_content": secret}
        )
    said: Native = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": draw(words)}]}
    out.append({**said, **draw(extras)})
    calls = draw(st.lists(st.uuids().map(lambda u: f"call_{u.hex}"), max_size=2, unique=True))
    for call in calls:
        if draw(st.booleans()):
            out.append({"type": "custom_tool_call", "call_id": call, "name": draw(words), "input": draw(texts)})
        else:
            arguments = draw(objects.map(json.dumps))
            out.append({"type": "function_call", "call_id": call, "name": draw(words), "arguments": arguments})
    kinds = {o["call_id"]: o["type"] for o in out if "call_id" in o}
    out.extend({"type": f"{kinds[c]}_output", "call_id": c, "output": draw(words)} for c in calls)
    if draw(st.booleans()):
        out.append({"type": "compaction", "id": "cmp_1", "encrypted_content": draw(words)})
    return out


# -- gemini ------------------------------------------------------------------------------------------------------------


@st.composite
def _gemini_step(draw: st.DrawFn) -> list[Native]:
    blob = {"inlineData": {"mimeType": "image/png", "data": draw(words)}}
    asked = draw(st.lists(st.builds(lambda t: {"text": t}, words) | st.just(blob), min_size=1, max_size=2))
    calls = draw(st.lists(words, max_size=3))
    ids = draw(st.booleans())
    parts: list[Json] = [{"text": draw(words), **({"thought": True} if draw(st.booleans()) else {})}]
    answers: list[Json] = []
    for number, name in enumerate(calls):
        own: Native = {"id": f"id-{number}"} if ids else {}
        signed: Native = {"thoughtSignature": draw(words)} if draw(st.booleans()) else {}
        parts.append({"functionCall": {**own, "name": name, "args": draw(objects)}, **signed})
        answers.append({"functionResponse": {**own, "name": name, "response": draw(objects)}})
    out: list[Native] = [{"role": "user", "parts": asked}, {"role": "model", "parts": parts}]
    return [*out, {"role": "user", "parts": answers}] if answers else out


LISTS: dict[str, Callable[[], st.SearchStrategy[list[Native]]]] = {
    "anthropic": lambda: _join_steps(_anthropic_step()),
    "openai-chat": lambda: _join_steps(_chat_step()),
    "openai-responses": lambda: _join_steps(_responses_step()),
    "gemini": lambda: _join_steps(_gemini_step()),
}
"""For each wire a strategy of lists of native messages."""
