"""What is known of OpenAI Responses: what it accepts, what it answers to the rest, and how it writes things."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tenfold.core.record.message import Message, get_tool_result
from tenfold.core.wire import splice
from tenfold.core.wire.native_form import MessageForm, PartForms, ValueForm, make_content, make_unseen
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

NAME = "openai-responses"
ID_PATTERN = r".{1,64}"
"""The ids of calls."""

_CALL_ID = ValueForm(rule="call_id", pattern=ID_PATTERN, advice="use an id of 1 to 64 characters")
_PROMPT_PARTS = PartForms(
    kinds={"input_text": {"text": ValueForm()}, **make_unseen("input_image", "input_file", "input_audio")}
)
_ANSWER_PARTS = PartForms(kinds={"output_text": {"text": ValueForm()}, "refusal": {"refusal": ValueForm()}})


def _make_id(prefix: str, foreign: str) -> Mapping[str, ValueForm]:
    """Makes the form of an item's id. Other servers have prefixes of their own, so only that of another type counts."""
    pattern = f"(?!(?:{foreign})_)[a-zA-Z0-9_-]+"
    advice = f"use the id that the provider gave, such as {prefix}_1, or leave it out"
    return {"id": ValueForm(rule="item_id", is_required=False, pattern=pattern, advice=advice)}


_PROMPT = make_content(_PROMPT_PARTS)
_OUTPUT = {"call_id": _CALL_ID, "output": ValueForm(types=("text", "list"))}

FORM = MessageForm(
    roles={
        "user": _PROMPT,
        "system": _PROMPT,
        "developer": _PROMPT,
        "assistant": {**_make_id("msg", "fc|rs|call|toolu"), **make_content(_ANSWER_PARTS)},
    },
    items=PartForms(
        kinds={
            "function_call": {
                **_make_id("fc", "msg|rs|call|toolu"),
                "call_id": _CALL_ID,
                "name": ValueForm(least=1),
                "arguments": ValueForm(),
            },
            "function_call_output": _OUTPUT,
            "custom_tool_call": {"call_id": _CALL_ID, "name": ValueForm(least=1), "input": ValueForm()},
            "custom_tool_call_output": _OUTPUT,
            "reasoning": {**_make_id("rs", "msg|fc|call|toolu"), "summary": ValueForm(types=("list",))},
            "item_reference": {"id": ValueForm(rule="item_id", least=1)},
            **make_unseen("compaction", "compaction_summary", "context_compaction", "compaction_trigger"),
            **make_unseen("additional_tools", "configuration_update", "mcp_list_tools", "mcp_approval_request"),
            **make_unseen("mcp_approval_response", "program"),
        },
        default="item_reference",
        others=r"\w+_call|\w+_output",  # the provider's own tools, of which there are more with each release
    ),
)
"""The items are those of the openai SDK 3.54, `ResponseInputItemParam`."""


CALL_FIELDS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
}
"""The types of call items, and the field that holds the arguments of each."""
OUTPUT_FIELDS: Mapping[str, str] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "computer_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "program_output": "result",
}
"""The types of output items, and the field that holds the content of each."""
_IRREPLACEABLE_OUTPUTS = frozenset({"computer_call_output", "program_output"})
"""Outputs that no text can replace: one is a screenshot, the other is known to the provider."""
_COMPACTION_TYPES = frozenset({"compaction", "compaction_summary", "context_compaction"})
_DEFINITION_TYPES = frozenset({"additional_tools", "tool_search_output", "mcp_list_tools"})
_ITEM_TYPES = frozenset({
    *CALL_FIELDS, *OUTPUT_FIELDS, *_COMPACTION_TYPES, *_DEFINITION_TYPES, "reasoning", "item_reference",
})  # fmt: skip
"""The types of items without a role that no other wire has."""


def _recognize_message(shape: NativeShape) -> bool:
    if not RESPONSES_PARTS.isdisjoint(shape.block_kinds):
        return True
    if not shape.role:
        return shape.kind in _ITEM_TYPES
    return shape.kind == "message" and "stop_reason" not in shape.fields


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"type": "function", **build_plain_tool(name, description, parameters)}


def _can_take_text(message: Message, call_ids: Collection[str]) -> bool:
    """Whether a tool result can be replaced by text.

    The output item must have the type that its call needs. If the list only refers to the call, that type is unknown,
    so only the most common one can be replaced.
    """
    result, native = get_tool_result(message), message.native
    if result is None or native is None:
        return True
    kind = splice.parse_string((splice.parse_object(native.body) or {}).get("type")) or ""
    return kind not in _IRREPLACEABLE_OUTPUTS and (kind == "function_call_output" or result.call_id in call_ids)


PROFILE = Profile(
    wire=NAME,
    # output items of /responses/compact may stand first
    opens_with_assistant=True,
    # `No tool output found for function call`: an output must exist, its place is free
    results="anywhere",
    # `Item of type 'reasoning' was provided without its required following item` (openai/openai-node#1567,
    # vercel/ai#7099, openclaw/openclaw#19582)
    reasoning_needs_successor=True,
    id_pattern=ID_PATTERN,
    # items before the most recent compaction item may be dropped, it carries what is needed; /responses/compact gives
    # all user messages followed by one such item (developers.openai.com/api/docs/guides/compaction; openai SDK,
    # CompactedResponse)
    native_compaction="alone",
    compaction_types=_COMPACTION_TYPES,
    definition_types=_DEFINITION_TYPES,
    form=FORM,
    unique_item_ids=True,
    takes_text=True,
    request=RequestFields(
        list_field="input",
        overhead_fields=("instructions", "tools"),
        output_fields=("max_output_tokens",),
        partial_fields=("previous_response_id", "conversation"),
    ),
    usage=(UsageFields(prompt=("input_tokens",), output="output_tokens", details="input_tokens_details"),),
    unfinished={
        "status": ("failed", "cancelled", "in_progress"),
        "object": ("response.compaction",),  # the cost of compacting, not of a request with this view
    },
    errors=(
        build_look_alike("OpenAI", r"call_id\W{1,3}string too long", "AnswerDotAI/fastllm#45"),
        build_overflow(
            "OpenAI Responses",
            r"exceed(?:s|ed)? (?:the |this model.?s )?(?:maximum )?context (?:window|length|size)",
            "VectorlyApp/bluebox#66",
        ),
        build_overflow(
            "OpenAI", r"(?:content|input)\W{1,3}string too long", "VectorlyApp/bluebox#31, gptscript-ai/clio#41"
        ),
    ),
    other_names=("responses",),
    media_kinds={
        "input_image": "image",  # with a file id
        "computer_screenshot": "image",
        "input_file": "document",  # with a file id
        "input_audio": "audio",
    },
    can_take_text=_can_take_text,
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    splits_answers=True,
    standalone_kinds=_COMPACTION_TYPES | {"compaction_trigger", "additional_tools"},
    session_formats=frozenset({"codex"}),
)
