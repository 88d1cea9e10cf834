"""What OpenAI Responses accepts as one item, and what it answers to items that break a rule."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm

ID_PATTERN = r".{1,64}"
"""The ids of calls."""

_CALL_ID = ValueForm(rule="call_id", pattern=ID_PATTERN, advice="use an id of 1 to 64 characters")
_PROMPT_PARTS = PartForms(
    kinds={"input_text": {"text": ValueForm()}, "input_image": {}, "input_file": {}, "input_audio": {}}
)
_ANSWER_PARTS = PartForms(kinds={"output_text": {"text": ValueForm()}, "refusal": {"refusal": ValueForm()}})


def _make_id(prefix: str, foreign: str) -> Mapping[str, ValueForm]:
    """Makes the form of an item's id. Other servers have prefixes of their own, so only that of another type counts."""
    pattern = f"(?!(?:{foreign})_)[a-zA-Z0-9_-]+"
    advice = f"use the id that the provider gave, such as {prefix}_1, or leave it out"
    return {"id": ValueForm(rule="item_id", is_required=False, pattern=pattern, advice=advice)}


def _make_content(parts: PartForms) -> Mapping[str, ValueForm]:
    return {"content": ValueForm(types=("text", "list"), rule="content_form", parts=parts)}


_PROMPT = _make_content(_PROMPT_PARTS)
_OUTPUT = {"call_id": _CALL_ID, "output": ValueForm(types=("text", "list"))}

FORM = MessageForm(
    roles={
        "user": _PROMPT,
        "system": _PROMPT,
        "developer": _PROMPT,
        "assistant": {**_make_id("msg", "fc|rs|call|toolu"), **_make_content(_ANSWER_PARTS)},
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
            "compaction": {},
            "compaction_summary": {},
            "context_compaction": {},
            "compaction_trigger": {},
            "additional_tools": {},
            "configuration_update": {},
            "mcp_list_tools": {},
            "mcp_approval_request": {},
            "mcp_approval_response": {},
            "program": {},
        },
        default="item_reference",
        others=r"\w+_call|\w+_output",  # the provider's own tools, of which there are more with each release
    ),
)
"""The items are those of the openai SDK 3.54, `ResponseInputItemParam`."""

RULE_EVIDENCE: Mapping[str, RuleEvidence] = {
    "message_form": RuleEvidence("schema: an item is an object", "openai SDK: ResponseInputItemParam"),
    "known_role": RuleEvidence(
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'",
        "anomalyco/opencode#10803",
    ),
    "content_form": RuleEvidence(
        "schema: content is a string or an array of content parts", "openai SDK: EasyInputMessageParam"
    ),
    "known_part": RuleEvidence(
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'",
        "tinyhumansai/openhuman#3624, jeremychone/rust-genai#119",
    ),
    "part_fields": RuleEvidence(
        "Missing required parameter: 'input[7].summary'; Invalid 'input[4].name': empty string; schema: "
        "arguments is a string",
        "AAswordman/Operit#797, diegosouzapw/OmniRoute#346, openai SDK: ResponseFunctionToolCallParam",
    ),
    "call_id": RuleEvidence(
        "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64",
        "earendil-works/pi#1022, HKUDS/nanobot#1623",
    ),
    "item_id": RuleEvidence(
        "Invalid 'input[3].id': 'x'. Expected an ID that begins with 'fc'",
        "Wei-Shaw/sub2api#3785, nodetool-ai/nodetool#4252",
    ),
    "unique_item_ids": RuleEvidence("Duplicate item found with id", "vercel/ai#13307"),
    "result_follows_call": RuleEvidence(
        "No tool call found for function call output", "microsoft/vscode#320060, continuedev/continue#10092"
    ),
    "call_answered": RuleEvidence(
        "No tool output found for function call", "anomalyco/opencode#16717, jlcodes99/cockpit-tools#1234"
    ),
    "thinking_with_step": RuleEvidence(
        "Item of type 'reasoning' was provided without its required following item",
        "openai/openai-node#1567, vercel/ai#7099",
    ),
    "not_empty": RuleEvidence("Missing required parameter: 'input'", "OpenAI API: Create a response, input"),
    "call_defined": RuleEvidence(
        "Missing namespace for function_call 'x'. It does not exist in the default namespace",
        "earendil-works/pi#7709, github/copilot-cli#4519",
    ),
    "whole_characters": RuleEvidence(
        "UnicodeEncodeError: surrogates not allowed", "openai SDK: a request is sent as UTF-8"
    ),
}
