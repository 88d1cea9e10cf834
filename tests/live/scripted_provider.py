"""A provider on this machine whose model works through a folder with whatever tools a client offers it.

It refuses what real providers refuse: by the rules of `tests.models.provider_rules`, which know nothing of this
project, and by its own. A request longer than the window gets the provider's error for that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.core.view.rules import check_messages
from tenfold.core.wire import get_wire
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import Issued, find_refusal

Json = dict[str, Any]
WIRES = {"chat": "openai-chat", "responses": "openai-responses", "messages": "anthropic", "generate": "gemini"}
BYTES_PER_TOKEN = 4
READ_TOOLS = ("read", "read_file", "Read", "read_files", "view", "file_editor")
SHELL_TOOLS = (
    "bash", "Bash", "shell", "exec_command", "shell_command", "run_shell_command", "run_commands", "execute_command",
    "terminal",
)  # fmt: skip
LIST_TOOLS = ("ls", "List", "list", "list_directory", "glob", "find")
NATIVE_SUMMARY = re.compile(
    r"You are a context summarization|<state_snapshot>|Create a handoff summary|CONTEXT CHECKPOINT COMPACTION"
    r"|compaction_trigger|create a detailed summary of (?:the|this) conversation",
    re.IGNORECASE,
)
"""How clients ask for a summary of their own."""


class Answered(Struct):
    """One request and what became of it. `kind` is step, end, summary (ours), native, or side."""

    kind: str
    api: str
    size: int
    tool: str = ""
    refusal: str = ""


class ScriptedProvider(Loopback):
    """The server. Each task takes `steps` calls of tools, then the model says that it is done.

    with ScriptedProvider(window=16_000, steps=22) as provider: ...
    """

    def __init__(self, *, window: int, steps: int, folder: str, end_command: str = "") -> None:
        """The model reads the files `folder`/part01.txt and so on. It thinks where it is asked to.

        It says that it is done in words, or with `end_command` in a shell.
        """
        self._end_command = end_command
        self.window, self.steps, self.folder = window, steps, folder
        self.answered: list[Answered] = []
        self.main_tools: frozenset[str] = frozenset()
        self.step = 0
        self._task_end = steps
        self.issued = Issued()
        super().__init__(script=self._answer, sent=self.issued.note)

    def start_task(self) -> None:
        """Begins the next task: so many steps more."""
        self._task_end = self.step + self.steps

    def list_refusals(self) -> list[str]:
        """What was refused, and why."""
        return [each.refusal for each in self.answered if each.refusal]

    def count(self, kind: str) -> int:
        """How many requests were of a kind."""
        return sum(each.kind == kind for each in self.answered)

    def _answer(self, got: Got) -> Served:
        tokens = got.size // BYTES_PER_TOKEN
        refusal = find_refusal(got.api, got.body, issued=self.issued, tokens=tokens, window=self.window)
        if refusal is not None:
            self.answered.append(Answered("refused", got.api, got.size, refusal=f"{refusal.rule}: {refusal.message}"))
            return Served(status=refusal.status, body=refusal.body)
        problem = find_own_problem(got)
        if problem:
            self.answered.append(Answered("refused", got.api, got.size, refusal=problem))
            return Served(status=400, error=problem)
        tools = read_tools(got)
        if NATIVE_SUMMARY.search(find_question(got)):
            return self._say("native", got, "<state_snapshot>The parts were read one by one.</state_snapshot>", tokens)
        if not tools:
            kind = "summary" if tokens > 300 and "title" not in got.prompt[:3_000].lower() else "side"
            return self._say(kind, got, "## Goal\nRead the parts.\n\n## Done\nThe parts were read in turn.", tokens)
        self.main_tools = self.main_tools or frozenset(tools)
        if len(tools) < len(self.main_tools) - 3:
            return self._say("side", got, "Nothing to add.", tokens)
        if self.step >= self._task_end and self._end_command:
            self.answered.append(Answered("end", got.api, got.size))
            name = next(name for name in tools if name in SHELL_TOOLS)
            call = ("end", name, {"command": self._end_command})
            return Served("It is done.", "tool", tokens=(tokens, 30), call=call)
        if self.step >= self._task_end:
            return self._say("end", got, "All parts were read. The task is done.", tokens)
        self.step += 1
        name, arguments = choose_call(tools, self.step, self.folder)
        self.answered.append(Answered("step", got.api, got.size, name))
        thought = (f"Part {self.step} is next.", sign(f"Part {self.step} is next.")) if wants_thought(got) else None
        text = "" if got.api == "generate" else f"I read part {self.step}."  # gemini's own checks cannot do with both
        return Served(text, "tool", tokens=(tokens, 40), call=(f"s{self.step:03}", name, arguments), thought=thought)

    def _say(self, kind: str, got: Got, text: str, tokens: int) -> Served:
        self.answered.append(Answered(kind, got.api, got.size))
        number = f"e{len(self.answered):03}"
        thought = (f"Say {number}.", sign(f"Say {number}.")) if kind == "end" and wants_thought(got) else None
        return Served(text, tokens=(tokens, 30), call=(number, "", {}), thought=thought)


def wants_thought(got: Got) -> bool:
    """Whether a request asks the model to think and to give its thoughts back signed."""
    if got.api == "generate":
        return bool((got.body.get("generationConfig") or {}).get("thinkingConfig"))
    thinking = (got.body.get("thinking") or {}).get("type", "")
    return thinking in ("enabled", "adaptive") or "reasoning.encrypted_content" in (got.body.get("include") or ())


def sign(text: str) -> str:
    """The signature of a thought."""
    return hashlib.sha256(f"only-here\0{text}".encode()).hexdigest()


def find_own_problem(got: Got) -> str:
    """What Tenfold's own rules have against a request, "" if nothing."""
    wire = get_wire(WIRES[got.api])
    items = got.body[wire.profile.request.list_field]
    if isinstance(items, str):
        return ""
    messages = wire.decode([msgspec.json.encode(item) for item in items])
    return "; ".join(v.problem for v in check_messages(messages, wire.name, sending=True))


def find_question(got: Got) -> str:
    """The system prompt and the last message of a request, as text."""
    wire = get_wire(WIRES[got.api])
    items = got.body[wire.profile.request.list_field]
    last = items if isinstance(items, str) else msgspec.json.encode(items[-1]).decode()
    opening = "" if isinstance(items, str) else msgspec.json.encode(items[0]).decode()
    opening = opening if re.search(r'"role":"(?:system|developer)"', opening) else ""
    system = str(got.body.get("system") or got.body.get("instructions") or got.body.get("systemInstruction") or "")
    return f"{opening[:4_000]}\n{system[:4_000]}\n{last if not _RESULT.search(last) else ''}"


_RESULT = re.compile(r'"tool_call_id"|"tool_result"|"function_call_output"|"functionResponse"')


_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "parameters")


def read_tools(got: Got) -> dict[str, Json]:
    """The tools that a request offers, each with its schema."""
    out: dict[str, Json] = {}
    for tool in got.body.get("tools") or ():
        if "functionDeclarations" in tool:
            for one in tool["functionDeclarations"]:
                out[one["name"]] = next((one[key] for key in _SCHEMAS if key in one), {})
            continue
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and "name" in function:
            out[function["name"]] = function.get("parameters") or function.get("input_schema") or {}
    return out


def choose_call(tools: Mapping[str, Json], step: int, folder: str) -> tuple[str, Json]:
    """Chooses what to call at a step: a tool that reads a file, every third time a shell, once a list."""
    path = f"{folder}/part{(step - 1) % 60 + 1:02}.txt"
    found = {
        kind: next((name for name in names if name in tools), "")
        for kind, names in (("read", READ_TOOLS), ("shell", SHELL_TOOLS), ("list", LIST_TOOLS))
    }
    order = ("list", "read", "shell") if step == 5 else ("shell", "read") if step % 3 == 0 else ("read", "shell")
    name = next((found[kind] for kind in order if found[kind]), "") or next(iter(tools))
    target = folder if name == found["list"] and name else path
    return name, fill_arguments(tools[name], target)


def fill_arguments(schema: Json, path: str) -> Json:
    """Fills in what a tool requires, by the names and types of its parameters."""
    properties: Json = schema.get("properties") or {}
    required: Sequence[str] = schema.get("required") or [name for name in properties if _PATH.fullmatch(name)][:1]
    names = list(required) or list(properties)[:1]
    return {name: _fill(name, properties.get(name) or {}, path) for name in names}


_PATH = re.compile(r"(?:file_?|absolute_?|dir_?|directory)?_?path|filename|file|dir", re.IGNORECASE)


def _fill(name: str, schema: Json, path: str) -> Any:  # noqa: ANN401 - whatever the schema asks for
    kind = schema.get("type") or (schema.get("anyOf") or schema.get("oneOf") or [schema])[0].get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if "enum" in schema:
        return schema["enum"][0]
    if kind == "array":
        return [_fill(name, schema.get("items") or {}, path)]
    if kind == "object":
        return fill_arguments(schema, path)
    if kind in ("integer", "number"):
        return 1_000
    if kind == "boolean":
        return False
    if name in ("command", "cmd", "commands"):
        return f"cat {path}"
    if name == "pattern":
        return "*.txt"
    return path if _PATH.fullmatch(name) or name in ("files", "paths") else "Reads a part of the program"
