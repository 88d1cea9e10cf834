"""The built-in demonstration: a script in the place of a model, so that the agent can be tried without a key.

It uses no network. The words of a prompt choose its steps, so the same conversation always gets the same answer. Its
tool calls are real calls of the tools that the agent offers. It reads the progress of a run from the ids of its own
calls in view. So it can go on after a compaction, a killed process or an undo.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter as Tally
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from tenfold.apps.agent.pydantic_messages import MessageReader, encode_overhead
from tenfold.apps.agent.runtime import RESUME_PROMPT
from tenfold.core.meter.counters import choose_counter, measure_messages
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.text.json_text import decode_arguments
from tenfold.core.wire.marks import find_summary_mark, find_text_origin

DEMONSTRATION = "demonstration"
DEMONSTRATION_WINDOW = 16_000
"""The demonstration's window in tokens: small, so that a compaction can be seen within minutes."""
CLOSING_NOTE = (
    "(This is a scripted demonstration, not a model. To talk to a model, name one, or set its provider's key. The "
    "script also understands: write NAME TEXT, run COMMAND, recall WORDS, compact.)"
)
"""The last line of every answer."""
_LINES_READ = 40
"""Lines of a file that it reads: enough to show it at work, and few enough for its small window."""
_QUOTED_CHARACTERS = 600
"""Characters of a tool result that an answer quotes."""
_CHUNK_CHARACTERS = 16
"""Characters of a call's arguments that are streamed at a time."""
_COUNTER = choose_counter(DEMONSTRATION).counter
_CALL_ID = re.compile(r"demo-(\d+)-[0-9a-f]{12}-\d+")
_MATCH_LINE = re.compile(r"^(.+?):(\d+):(.*)$", re.MULTILINE)
_PROSE_WORDS = frozenset(["a", "all", "an", "it", "me", "my", "one", "some", "that", "the", "this", "your"])
"""If one of these words follows `write` or `run`, the prompt is an ordinary sentence and not a command of the
script."""
_COMMON_WORDS = re.compile(
    r"about|all|and|any|are|can|could|does|every|file|files|find|for|from|give|have|how|into|list|look"
    r"|make|many|more|please|read|search|shall|should|show|some|tell|that|the|their|them|then|there|these"
    r"|they|this|those|use|was|were|what|when|where|which|who|why|will|with|would|you|your"
)
"""Words of a prompt that are not worth searching for."""

Arguments = dict[str, Any]
Calls = list[tuple[str, Arguments]]


class ScriptLine(Struct, frozen=True):
    """What the script says next, with the tool calls it makes.

    Without calls the run is over. `stage` is the number of the stage that the calls belong to.
    """

    text: str
    calls: tuple[tuple[str, Arguments], ...] = ()
    stage: int = 0


class RunState(Struct, frozen=True):
    """What the script learns from a view: how far the current run has come.

    `prompt` is the text that the run answers, `stage` the highest stage of the run in view, `results` its tool results
    in view, and `tools` the names of the tools that are offered.
    """

    prompt: str
    stage: int
    results: tuple[tuple[str, Arguments, str], ...]
    tools: frozenset[str]

    def find_results(self, *tools: str) -> list[tuple[Arguments, str]]:
        """Returns the arguments and results of the calls of these tools, in order."""
        return [(arguments, text) for name, arguments, text in self.results if name in tools]


def build_demonstration() -> Model:
    """Builds the scripted model."""
    return _DemonstrationModel()


class _DemonstrationModel(FunctionModel):
    """A function model of pydantic-ai that reports how many tokens it read. A session is calibrated by that number."""

    def __init__(self) -> None:
        profile = ModelProfile(context_window=DEMONSTRATION_WINDOW)
        super().__init__(self._respond, stream_function=self._stream, model_name=DEMONSTRATION, profile=profile)
        self._progress: tuple[str, int] = "", 0  # prompt and newest stage of the current run

    def _play(self, messages: Sequence[ModelMessage], info: AgentInfo) -> tuple[str, list[ToolCallPart]]:
        """Returns the next line and its calls. A stage whose calls a policy has already hidden is not started again."""
        received = MessageReader().read(messages)[0]
        state = build_run_state(received, [tool.name for tool in info.function_tools])
        prompt, stage = self._progress
        if prompt == state.prompt:
            state = replace(state, stage=max(state.stage, stage))
        line = choose_line(state)
        self._progress = (state.prompt, line.stage) if line.calls else ("", 0)
        return line.text, _build_calls(line, received)

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        text, calls = self._play(messages, info)
        output_tokens = sum(_COUNTER.count([text, *(call.args_as_json_str() for call in calls)]))
        input_tokens = _count_request(messages, info.model_request_parameters)
        usage = RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens)
        return ModelResponse([TextPart(text), *calls], usage=usage)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        text, calls = await asyncio.to_thread(self._play, messages, info)
        for piece in re.findall(r"\S+\s*", text):
            yield piece
            await asyncio.sleep(0)
        for at, call in enumerate(calls):
            yield {at: DeltaToolCall(call.tool_name, "", tool_call_id=call.tool_call_id)}
            for chunk in re.findall(rf"(?s).{{1,{_CHUNK_CHARACTERS}}}", call.args_as_json_str()):
                yield {at: DeltaToolCall(None, chunk, tool_call_id=call.tool_call_id)}
                await asyncio.sleep(0)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Streams the next line of the script."""
        tokens = await asyncio.to_thread(_count_request, messages, model_request_parameters)
        async with super().request_stream(messages, model_settings, model_request_parameters, run_context) as response:
            response._usage = RequestUsage(input_tokens=tokens)  # noqa: SLF001 - it offers no other way to report it
            yield response


def _count_request(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    """Counts the tokens of a request as the session does: its messages, the instructions and the tools."""
    sizes = measure_messages(MessageReader().read(messages)[0], _COUNTER)
    return sum(sizes) + sum(_COUNTER.count([encode_overhead(parameters).decode()]))


def _build_calls(line: ScriptLine, messages: Sequence[Message]) -> list[ToolCallPart]:
    """Builds the calls with their ids.

    An id holds the stage and a hash of the conversation, so two conversations never get the same ids.
    """
    conversation = "\n".join(f"{message.role} {get_text(message)}" for message in messages)
    digest = sha256(f"{len(messages)} {conversation}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return [
        ToolCallPart(name, arguments, tool_call_id=f"demo-{line.stage}-{digest}-{at}")
        for at, (name, arguments) in enumerate(line.calls)
    ]


# -- reading a view ----------------------------------------------------------------------------------------------------


def build_run_state(messages: Sequence[Message], tools: Sequence[str]) -> RunState:
    """Reads a view: finds a person's newest message in it, and what was done since."""
    prompt, stage, summarized = "", 0, False
    calls: dict[str, tuple[str, Arguments]] = {}
    results: list[tuple[str, Arguments, str]] = []
    for message in messages:
        for text in (part.text for part in message.parts if isinstance(part, Text) and message.role == "user"):
            if find_summary_mark(text) is not None:
                summarized = True
            elif message.origin == "human" and text != RESUME_PROMPT and find_text_origin(text) == "human":
                prompt, stage, summarized = text, 0, False
                results.clear()
        for call in get_tool_calls(message):
            calls[call.id] = call.name, decode_arguments(call.arguments) or {}
        result = get_tool_result(message)
        if result is not None and (own_id := _CALL_ID.fullmatch(result.call_id)):
            stage = max(stage, int(own_id[1]))
            name, arguments = calls.get(result.call_id, (result.name, {}))
            results.append((name, arguments, get_text(message)))
    if summarized and not stage:  # what was done for this prompt is in the summary after it
        stage = len(_STAGES)
    return RunState(prompt, stage, tuple(results), frozenset(tools))


# -- the script --------------------------------------------------------------------------------------------------------


def choose_line(state: RunState) -> ScriptLine:
    """Decides what the script says and does next."""
    command = _parse_command(state.prompt)
    if command is not None:
        return _answer_command(state, *command)
    for stage in range(state.stage + 1, len(_STAGES) + 1):
        text, calls = _STAGES[stage - 1](state)
        offered = tuple(call for call in calls if call[0] in state.tools)
        if offered:
            return ScriptLine(text, offered, stage)
    return ScriptLine(f"{_describe_results(state)}\n\n{CLOSING_NOTE}")


def _parse_command(prompt: str) -> tuple[str, Arguments] | None:
    """Returns the tool call that a prompt in the script's own form asks for, None for any other prompt."""
    verb, _, rest = prompt.strip().partition(" ")
    rest = rest.strip()
    first, _, more = rest.partition(" ")
    match verb.lower():
        case "compact":
            return "compact", {"focus": rest}
        case "recall" if rest:
            return "recall_search", {"words": rest}
        case "run" if rest and first.lower() not in _PROSE_WORDS:
            return "run_command", {"command": rest}
        case "write" if more and first.lower() not in _PROSE_WORDS:
            return "write_file", {"path": first, "content": f"{more.strip()}\n"}
    return None


def _answer_command(state: RunState, tool: str, arguments: Arguments) -> ScriptLine:
    if tool not in state.tools:
        return ScriptLine(f"This agent offers no tool {tool}.\n\n{CLOSING_NOTE}")
    if not state.stage:
        return ScriptLine(f"I call {tool}.", ((tool, arguments),), 1)
    results = state.find_results(tool)
    quoted = excerpt(results[-1][1], _QUOTED_CHARACTERS, Keep.HEAD) if results else "[no longer in view]"
    return ScriptLine(f"{tool} answered:\n\n{quoted}\n\n{CLOSING_NOTE}")


def _plan_listing(_: RunState) -> tuple[str, Calls]:
    return "I look at what is in the folder.", [("list_files", {"path": "."})]


def _plan_search(state: RunState) -> tuple[str, Calls]:
    word = find_search_word(state.prompt)
    if not word:
        return "", []
    return f"I search for {word!r}.", [("search_files", {"pattern": f"(?i){re.escape(word)}"})]


def _plan_reading(state: RunState) -> tuple[str, Calls]:
    chosen = _pick_files(state)
    text = f"I read {' and '.join(path for path, _ in chosen)}."
    return text, [("read_file", {"path": path, "first_line": line, "lines": _LINES_READ}) for path, line in chosen]


_STAGES: tuple[Callable[[RunState], tuple[str, Calls]], ...] = (_plan_listing, _plan_search, _plan_reading)
"""The stages of an answer, one step each. A stage without calls is skipped."""


def find_search_word(prompt: str) -> str:
    """Picks the word to search for: one that looks like code, else the longest. Returns "" if none is worth it."""
    words = [
        w for w in re.findall(r"\w(?:[\w./-]*\w)?", prompt) if len(w) > 2 and not _COMMON_WORDS.fullmatch(w.lower())
    ]
    return max(words, key=lambda w: (bool(re.search(r"[_./\d]|[a-z][A-Z]", w)), len(w)), default="")


def _find_matches(state: RunState) -> list[tuple[str, int, str]]:
    matches = [each for _, text in state.find_results("search_files") for each in _MATCH_LINE.findall(text)]
    return [(path, int(at), line) for path, at, line in matches if not path.startswith("[")]  # a note, or a stub


def _pick_files(state: RunState) -> list[tuple[str, int]]:
    """Picks what to read: the one or two files with the most matches, from a few lines before the first match.

    Without matches it picks a file that explains the folder, such as a README.
    """
    matches = _find_matches(state)
    if matches:
        tally = Tally(path for path, _, _ in matches)
        first = {path: at for path, at, _ in reversed(matches)}
        ranked = sorted(tally, key=lambda path: (_is_hidden(path), -tally[path], path))
        return [(path, max(1, first[path] - 5)) for path in ranked[:2]]
    listed = [name for _, text in state.find_results("list_files") for name in text.splitlines()]
    names = [name for name in listed if not name.startswith("[") and not name.endswith(("/", "@"))]
    likely = sorted(names, key=lambda name: (not name.upper().startswith("README"), not name.endswith((".md", ".txt"))))
    return [(name, 1) for name in likely[:1]]


def _is_hidden(path: str) -> bool:
    return any(name.startswith(".") for name in path.split("/"))


def _describe_results(state: RunState) -> str:
    """Describes what the run saw, as far as it is in view."""
    sentences: list[str] = []
    for _, text in state.find_results("list_files"):
        names = [name for name in text.splitlines() if not name.startswith("[")]
        names.sort(key=_is_hidden)
        sentences.append(f"The folder holds {len(names)} names, {', '.join(names[:5])} among them." if names else text)
    matches = _find_matches(state)
    if state.find_results("search_files"):
        files = len({path for path, _, _ in matches})
        where = f"on {len(matches)} line(s) of {files} file(s)" if matches else "nowhere in it"
        sentences.append(f"{find_search_word(state.prompt)!r} occurs {where}.")
        first_matches = sorted(matches, key=lambda each: _is_hidden(each[0]))[:3]
        sentences += [f"{path}, line {at}: {line.strip()[:100]}" for path, at, line in first_matches]
    for arguments, text in state.find_results("read_file"):
        lines = text.splitlines()
        first = next((line.strip()[:100] for line in lines if line.strip()), "with nothing")
        sentences.append(f"I read {arguments.get('path', 'a file')}, {len(lines)} lines; it begins: {first}")
    if not sentences:
        return "What I saw is no longer in view." if state.stage else "There is nothing to look at."
    return "\n".join(sentences)
