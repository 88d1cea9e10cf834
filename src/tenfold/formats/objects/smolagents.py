"""The steps in the memory of a smolagents agent, as OpenAI Chat messages.

smolagents keeps steps and not messages: a step of an agent holds what the model said, the calls, and what they gave. It
writes them to the model as texts. Here a call is a tool call and what it gave its result, so it is known whose words
are whose.
"""

from __future__ import annotations

import base64
import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, SystemPromptStep, ToolCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing
from smolagents.utils import encode_image_base64, make_image_url, make_json_serializable

from tenfold.core.wire.given_values import name_type
from tenfold.core.wire.marks import ERROR_FLAG, SYSTEM_NOTE
from tenfold.errors import BadInput

Json = dict[str, Any]
OBSERVATION = "Observation:\n"
"""How smolagents begins what a call gave. A text of a user's that begins so is known for the output of a tool."""
_INTERPRETER = "python_interpreter"
"""The tool of a CodeAgent. Its argument is the code itself."""
_ENCODED: dict[int, tuple[weakref.ref[Any], str]] = {}
"""The images that were encoded before: a memory with many is read before each step."""


@dataclass
class MessageStep(MemoryStep):
    """A step that is a single message, in the words of its content: a summary, or a task of an earlier process."""

    role: MessageRole
    content: list[Json]

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:  # noqa: FBT001, FBT002 - as smolagents has it
        """Writes the message. A summary for a new plan leaves out what the model said, as of other steps."""
        is_left_out = summary_mode and self.role == MessageRole.ASSISTANT
        return [] if is_left_out else [ChatMessage(self.role, self.content)]


class SmolagentsConverter:
    """Converts the steps of a memory. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[Json]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. A step is several messages: what the model said, and what its calls gave."""
        if not isinstance(message, MemoryStep):
            raise BadInput(f"{name_type(message)} is no step of smolagents: pass the steps in agent.memory.steps")
        if isinstance(message, ActionStep):
            return _read_action(message)
        written = message.to_messages()
        if isinstance(message, PlanningStep):
            go_on = SYSTEM_NOTE.format(written[1].content[0]["text"])
            return [_read_message(written[0]), {"role": "user", "content": go_on}]
        return [_read_message(each) for each in written]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[MemoryStep]:
        """See `Converter.build`. An answer and its results are one step."""
        steps: list[MemoryStep] = []
        for message in messages:
            last = steps[-1] if steps else None
            if message["role"] == "assistant":
                steps.append(_build_action(message))
            elif message["role"] == "tool" and isinstance(last, ActionStep) and last.tool_calls:
                texts = [last.observations or "", _join_texts(message.get("content"))]
                last.observations = "\n".join(filter(None, texts))
            else:
                steps.append(_build_other(message))
        return steps


CONVERTER = SmolagentsConverter()


# -- from steps --------------------------------------------------------------------------------------------------------


def _read_action(step: ActionStep) -> list[Json]:
    """Reads a step of an agent. smolagents joins what several calls gave, so it is the result of the first one."""
    error = step.to_messages()[-1].content[0]["text"] if step.error is not None else ""
    gave = "\n".join(filter(None, [step.observations, error]))
    text = (step.model_output or "").strip()
    calls = [_read_call(call, f"call_{step.step_number}_{at}") for at, call in enumerate(step.tool_calls or ())]
    items: list[Json] = []
    if calls:
        items.append({"role": "assistant", "content": text or None, "tool_calls": calls})
        results = [ERROR_FLAG + gave if error else gave, *[""] * (len(calls) - 1)]
        items += [
            {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
    else:
        items += [{"role": "assistant", "content": text}] if text else []
        items += [{"role": "user", "content": OBSERVATION + gave}] if gave else []
    if step.observations_images:
        images = [{"type": "image", "image": image} for image in step.observations_images]
        items.append({"role": "user", "content": _read_content(images)})
    return items


def _read_call(call: ToolCall, spare_id: str) -> Json:
    given = make_json_serializable(call.arguments)
    arguments = given if isinstance(given, dict) else {"code" if call.name == _INTERPRETER else "input": given}
    function = {"name": call.name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call.id or spare_id, "type": "function", "function": function}


def _read_message(message: ChatMessage) -> Json:
    role = {MessageRole.TOOL_CALL: "assistant", MessageRole.TOOL_RESPONSE: "user"}.get(message.role, message.role)
    return {"role": str(getattr(role, "value", role)), "content": _read_content(message.content)}


def _read_content(content: str | list[Json]) -> str | list[Json]:
    if isinstance(content, str):
        return content
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return [
        {"type": "image_url", "image_url": {"url": _encode_image(part["image"])}} if part["type"] == "image" else part
        for part in content
    ]


def _encode_image(image: Any) -> str:  # noqa: ANN401 - an image of PIL
    key, known = id(image), _ENCODED.get(id(image))
    if known is not None and known[0]() is image:
        return known[1]
    url: str = make_image_url(encode_image_base64(image))
    _ENCODED[key] = weakref.ref(image, lambda _: _ENCODED.pop(key, None)), url
    return url


# -- to steps ----------------------------------------------------------------------------------------------------------


def _build_action(message: Mapping[str, Any]) -> ActionStep:
    calls = [_build_call(call) for call in message.get("tool_calls") or ()]
    text = _join_texts(message.get("content"))
    return ActionStep(step_number=0, timing=Timing(0.0), model_output=text or None, tool_calls=calls or None)


def _build_call(call: Mapping[str, Any]) -> ToolCall:
    name, text = call["function"]["name"], call["function"]["arguments"]
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        arguments = text
    if name == _INTERPRETER and isinstance(arguments, dict) and list(arguments) == ["code"]:
        arguments = arguments["code"]
    return ToolCall(name=name, arguments=arguments, id=call["id"])


def _build_other(message: Mapping[str, Any]) -> MemoryStep:
    """Builds a step of a message that is no answer. The role of a result is that of a user for every provider."""
    role, content = message["role"], message.get("content") or ""
    if role in ("system", "developer"):
        return SystemPromptStep(_join_texts(content))
    if role == "tool":
        return MessageStep(MessageRole.TOOL_RESPONSE, [{"type": "text", "text": OBSERVATION + _join_texts(content)}])
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return MessageStep(MessageRole.USER, [_build_part(part) for part in parts])


def _build_part(part: Mapping[str, Any]) -> Json:
    if part["type"] == "text":
        return dict(part)
    url = part["image_url"]["url"] if part["type"] == "image_url" else ""
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:image/"):
        shown = url[:80] or part["type"]
        raise BadInput(f"a step of smolagents holds texts and images, and not {shown!r}: leave it out of the message")
    return {"type": "image", "image": Image.open(BytesIO(base64.b64decode(data)))}


def _join_texts(content: Any) -> str:  # noqa: ANN401 - a text, a list of parts or null
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part["type"] == "text")
