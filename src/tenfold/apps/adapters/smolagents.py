"""Tenfold in an agent of smolagents: one step callback.

    agent = CodeAgent(tools, model, step_callbacks=[TenfoldSteps("support-42")])

After the first step, the agent's memory goes into a session before each call of the model, and the model sees its view.
The memory itself does not change, so replays and what `run` returns are as before.

smolagents calls a callback after a step, and not before the first one. An agent that goes on with a session, in a new
process, sees it in its first step too if it is attached:

    agent = TenfoldSteps("support-42").attach(CodeAgent(tools, model))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from smolagents import CodeAgent, LocalPythonExecutor, MultiStepAgent, Tool
    from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, SystemPromptStep
    from smolagents.models import ChatMessage, get_tool_json_schema
    from smolagents.utils import AgentGenerationError

from tenfold.apps.adapters.host_sessions import HostSession, HostSessions
from tenfold.core.wire.given_values import name_type
from tenfold.errors import UsageError
from tenfold.formats.objects.smolagents import CONVERTER
from tenfold.recall.tools import RecallTools
from tenfold.session.opening import SessionOptions
from tenfold.store.ids import IDS

A = TypeVar("A", bound=Any)


class TenfoldSteps:
    """Keeps the steps of an agent in a session, and has the model see them compacted when they grow too long.

    `session` is its id. Without one, each conversation of the agent has a session of its own, until `run` resets the
    memory. So has each task of a managed agent: its id is that of the session, the agent's name and a part of its own.
    The model is offered three tools to look up what it no longer sees, unless `recall` is False or its code is run by
    another executor than smolagents' local one.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name.
    """

    def __init__(self, session: str = "", *, recall: bool = True, **options: Unpack[SessionOptions]) -> None:
        if not isinstance(session, str):
            raise UsageError(
                f"session is {name_type(session)}: pass the session's id, as in TenfoldSteps('support-42')"
            )
        self.session, self.recall = session, recall
        self.sessions: HostSessions[MemoryStep] = HostSessions(CONVERTER, options)

    def __call__(self, memory_step: MemoryStep, agent: Any) -> None:  # noqa: ANN401 - an agent of any kind
        """Attaches the agent after its first step. At the end of a run, keeps the last step in the session."""
        self.attach(agent)
        if isinstance(memory_step, FinalAnswerStep):
            agent.write_memory_to_messages.fit()

    def attach(self, agent: A) -> A:
        """Has the model see the session's view from the next step on, and returns the agent."""
        if not isinstance(agent, MultiStepAgent):
            raise UsageError(f"{name_type(agent)} is no agent of smolagents: pass a CodeAgent or a ToolCallingAgent")
        if not isinstance(agent.write_memory_to_messages, _View):
            view = _View(agent, self)
            agent.write_memory_to_messages = view
            agent._step_stream = view.stream_step  # noqa: SLF001 - the only place where a refusal can be answered
            agent.step_callbacks.register(FinalAnswerStep, self)
        return agent


class _View:
    """Writes the messages for the model of one agent, in place of its `write_memory_to_messages`."""

    def __init__(self, agent: MultiStepAgent, steps: TenfoldSteps) -> None:
        self._agent, self._steps = agent, steps
        self._stream_step = agent._step_stream  # noqa: SLF001 - as above
        self._first: MemoryStep | None = None
        self._name, self._count = "", 0
        is_remote = isinstance(agent, CodeAgent) and not isinstance(agent.python_executor, LocalPythonExecutor)
        self._recall = steps.recall and not is_remote
        if self._recall:
            self._offer_lookups()

    def __call__(self, summary_mode: bool = False) -> list[ChatMessage]:  # noqa: FBT001, FBT002 - as smolagents has it
        """Writes the system prompt and the view."""
        steps = [self._agent.memory.system_prompt, *self.fit()]
        return [message for step in steps for message in step.to_messages(summary_mode=summary_mode)]

    def stream_step(self, memory_step: ActionStep) -> Iterator[Any]:
        """Makes a step, and once more from a shorter view if the provider refuses this one as too long."""
        try:
            yield from self._stream_step(memory_step)
        except AgentGenerationError as exc:
            self._find_session().shrink(exc)
            yield from self._stream_step(memory_step)

    def fit(self) -> list[MemoryStep]:
        """Appends what is new in the memory to the session, and returns the steps that the model is to see."""
        agent, host = self._agent, self._find_session()
        for step in agent.memory.steps[self._count :]:
            usage = step.token_usage if isinstance(step, ActionStep) and step.model_input_messages else None
            if usage is not None and self._count:
                host.report_usage(usage.input_tokens, usage.output_tokens)
        self._count = len(agent.memory.steps)
        tools, settings = getattr(agent, "tools_and_managed_agents", ()), getattr(agent.model, "kwargs", {})
        return host.fit(
            agent.memory.steps,
            system=agent.memory.system_prompt.system_prompt,
            recall="tool" if self._recall else "none",
            model=getattr(agent.model, "model_id", None),
            tools=[get_tool_json_schema(tool) for tool in tools],
            max_tokens=settings.get("max_tokens") or settings.get("max_completion_tokens"),
        ).messages

    def _find_session(self) -> HostSession[MemoryStep]:
        """Finds the session of the memory. A managed agent is called for one task after the other."""
        agent, named = self._agent, self._steps.session
        first = agent.memory.steps[0] if agent.memory.steps else None
        if first is not self._first or not self._name:
            is_managed = hasattr(agent, "inputs")
            parts = [named, agent.name, IDS.generate()] if is_managed or not named else [named]
            self._first, self._name, self._count = first, "/".join(filter(None, parts)), 0
        return self._steps.sessions.get(self._name, getattr(agent.model, "model_id", None) or "")

    def _offer_lookups(self) -> None:
        """Offers the tools to look things up, also in the middle of a run."""
        agent = self._agent
        for schema in RecallTools.build_schemas():
            tool = _StepLookup(schema["function"], self)
            agent.tools.setdefault(tool.name, tool)
        agent.memory.system_prompt = SystemPromptStep(agent.system_prompt)
        if isinstance(agent, CodeAgent):
            agent.python_executor.send_tools({**agent.tools, **agent.managed_agents})

    @property
    def lookups(self) -> RecallTools:
        """The tools of the session."""
        return self._find_session().tools


class _StepLookup(Tool):
    """A tool to look something up in the session of an agent."""

    skip_forward_signature_validation = True

    def __init__(self, definition: dict[str, Any], view: _View) -> None:
        parameters = definition["parameters"]
        self.name, self.description, self.output_type = definition["name"], definition["description"], "string"
        self.inputs = {
            name: schema if name in parameters["required"] else {**schema, "nullable": True}
            for name, schema in parameters["properties"].items()
        }
        self._view = view
        super().__init__()

    def forward(self, *values: Any, **arguments: Any) -> str:  # noqa: ANN401 - what the model wrote
        """Answers a call of the model, or of its code. smolagents has None for an argument that is left out."""
        given = {**dict(zip(self.inputs, values, strict=False)), **arguments}
        named = {name: value for name, value in given.items() if value is not None}
        return self._view.lookups.handle(self.name, named)

    def to_dict(self) -> dict[str, Any]:
        """Raises `UsageError`: smolagents saves a tool as code, and this one needs the session."""
        raise UsageError(f"{self.name} belongs to a session: save the agent before its first run, or pass recall=False")
