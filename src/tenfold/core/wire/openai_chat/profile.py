"""What is known of OpenAI Chat Completions, and of the servers that speak it."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.core.wire.native_form import MessageForm, PartForms, ValueForm, make_content
from tenfold.core.wire.openai_content import RESPONSES_PARTS
from tenfold.core.wire.profiles import (
    NativeShape,
    Profile,
    RequestFields,
    UsageFields,
    build_look_alike,
    build_overflow,
    build_plain_tool,
)

NAME = "openai-chat"
ID_PATTERN = r".{1,40}"
"""The ids of calls. Most reports name 40 characters, later ones 64, and one saw 51 accepted: the safe side is 40."""

_CALL_ID = ValueForm(rule="call_id", pattern=ID_PATTERN, advice="use an id of 1 to 40 characters")
_TEXT_PARTS: Mapping[str, Mapping[str, ValueForm]] = {"text": {"text": ValueForm()}}
_USER_PARTS = PartForms(
    kinds={
        **_TEXT_PARTS,
        "image_url": {"image_url": ValueForm(types=("object",), fields={"url": ValueForm()})},
        "input_audio": {"input_audio": ValueForm(types=("object",))},
        "file": {"file": ValueForm(types=("object",))},
    }
)
_CALLS = PartForms(
    kinds={
        "function": {
            "id": _CALL_ID,
            "function": ValueForm(types=("object",), fields={"name": ValueForm(least=1), "arguments": ValueForm()}),
        },
        "custom": {
            "id": _CALL_ID,
            "custom": ValueForm(types=("object",), fields={"name": ValueForm(least=1), "input": ValueForm()}),
        },
    },
    default="function",
)

_SYSTEM = make_content(PartForms(kinds=_TEXT_PARTS))

FORM = MessageForm(
    roles={
        "system": _SYSTEM,
        "developer": _SYSTEM,
        "user": make_content(_USER_PARTS),
        "assistant": {
            **make_content(
                PartForms(kinds={**_TEXT_PARTS, "refusal": {"refusal": ValueForm()}}),
                # an answer of reasoning alone is known to the servers that have these two fields
                unless=("tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning"),
            ),
            "tool_calls": ValueForm(types=("list",), is_required=False, least=1, parts=_CALLS),
        },
        "tool": {"tool_call_id": _CALL_ID, **make_content(PartForms(kinds=_TEXT_PARTS))},
        "function": {"name": ValueForm(least=1), "content": ValueForm(types=("text", "null"), rule="content_form")},
    }
)
"""The parts are those of the openai SDK 3.54, `ChatCompletionMessageParam`."""


_OWN_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
"""The content parts that no other wire has."""


def _recognize_message(shape: NativeShape) -> bool:
    is_tool_output = shape.role in ("tool", "function") and shape.kind != "message"
    is_chat = "tool_calls" in shape.fields or is_tool_output or not _OWN_PARTS.isdisjoint(shape.block_kinds)
    return is_chat and RESPONSES_PARTS.isdisjoint(shape.block_kinds)


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"type": "function", "function": build_plain_tool(name, description, parameters)}


PROFILE = Profile(
    wire=NAME,
    # accepted: the API puts no order on roles other than tool
    opens_with_assistant=True,
    # accepted anywhere in the list
    midlist_system="accepted",
    # `messages with role 'tool' must be a response to a preceding message with 'tool_calls'` (simonw/llm#937);
    # unanswered `tool_call_ids` are refused (spacedriveapp/spacebot#136)
    results="adjacent",
    # an empty string is accepted as content
    empty_text=True,
    id_pattern=ID_PATTERN,
    form=FORM,
    unique_call_ids="answer",
    request=RequestFields(output_fields=("max_tokens", "max_completion_tokens"), count_fields=("n",)),
    usage=(
        UsageFields(
            prompt=("prompt_tokens",),
            output="completion_tokens",
            cache_read="cache_read_input_tokens",  # routers to Anthropic's models report these two as well
            cache_write="cache_creation_input_tokens",
            details="prompt_tokens_details",
        ),
    ),
    errors=(
        build_look_alike(
            "Groq, OpenAI", r"tokens per min|\bTPM\b", "continuedev/continue#10218, vanna-ai/vanna-flask#11"
        ),
        build_look_alike("OpenAI", r"supports at most <n> completion tokens", "ChatGPTNextWeb/NextChat#3195"),
        build_overflow("OpenAI", r"context[_ ]length[_ ]exceeded", "dyad-sh/dyad#1672"),
        build_overflow("OpenAI, others", r"maximum context length(?:(?: is| of|:) <limit>)?", "ddalcu/mlx-serve#66"),
        build_overflow("OpenAI Chat", r"your messages resulted in <n> tokens", "AsyncFuncAI/deepwiki-open#144"),
        build_overflow(
            "OpenAI, Azure", r"input tokens exceed the configured limit of <limit> tokens", "cline/cline#5474"
        ),
    ),
    other_names=("chat", "chat-completions", "completions"),
    media_kinds={
        "image_url": "image",
        "file": "document",  # with a file id
        "input_audio": "audio",
        "input_video": "video",
        "video_url": "video",  # compatible servers
    },
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    session_formats=frozenset({"openhands-requests", "tau2", "swe-agent"}),
)
