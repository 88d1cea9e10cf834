"""A long-lived agent: pydantic-ai runs it, and a Tenfold session keeps its conversation.

Everything is appended to the session as it happens: the user's message before the model is called, and an answer before
its tools run. So an agent whose process was killed can be resumed. A tool call that was open at that moment is
shown to the model as a call with an unknown result. It is not run again automatically.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

from msgspec.structs import replace
from pydantic_ai import Agent as Runner
from pydantic_ai.messages import AgentStreamEvent
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult, AgentRunResultEvent
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from tenfold.apps.agent.capability import Memory, get_output_reserve
from tenfold.apps.agent.pydantic_messages import encode_messages
from tenfold.compaction.engine.call import Call
from tenfold.config.extensions import Extension
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text
from tenfold.core.text.redaction import redact
from tenfold.core.view.units import is_visible
from tenfold.errors import UsageError
from tenfold.events import RunEnd, RunSave, RunStart
from tenfold.models.provider import ProviderModel, open_client, resolve_window
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.ids import IDS, get_current_time
from tenfold.store.sqlite.store import SqliteStore

NO_REQUEST_LIMIT = UsageLimits(request_limit=None)
"""Lifts pydantic-ai's limit on requests per run: an agent that works for hours makes more of them."""
RESUME_PROMPT = "The run was interrupted here. What was being done may or may not have been done. Go on."
"""Sent in the user's place when a run goes on after an interruption and the user said nothing new."""
Phase = Literal["idle", "running", "compaction"]


class Agent:
    """An agent that runs over one session.

    `session` is its memory, `phase` says what it is doing, and `outcome` holds the result of its last compaction.
    """

    def __init__(  # noqa: PLR0913 - what a user says of an agent, in one place; everything after the model is by keyword
        self,
        model: Model | str,
        *,
        session: Session | None = None,
        window: int | None = None,
        instructions: str = "",
        settings: ModelSettings | None = None,
        tools: Sequence[Any] = (),
        capabilities: Sequence[Any] = (),
        extensions: Sequence[Extension] = (),
    ) -> None:
        """Opens the model and sets up the session.

        `model` is a pydantic-ai model or its name. Without `session`, the conversation is kept in memory; a model given
        by name then also writes the summaries. Give a session for any other setup. `settings`, `tools` and
        `capabilities` are passed to pydantic-ai. `extensions` are added to those of the session. Raises `UsageError`
        for a model that cannot be opened.
        """
        self.model = open_client(model) if isinstance(model, str) else model
        self.session = session or self._create_session(model)
        self.use(self.model, window)
        self.session.compactor.use_model(self.session.compactor.model or self.model.model_name)
        self.session.compactor.use_answerer(self.session.compactor.answerer.with_extensions(extensions))
        self._model_settings = settings
        self.phase: Phase = "idle"
        self._memory = Memory(self.session, window=self.window, has_run_end_check=True)
        self._async_session = AsyncSession(self.session)
        self._requested_focus: str | None = None
        self._runner: Runner[None, str] = Runner(
            self.model,
            instructions=instructions or None,
            model_settings=settings,
            tools=tools,
            capabilities=[self._memory, *capabilities],
        )

    def _create_session(self, model: Model | str) -> Session:
        answerer = Answerer(model=ProviderModel(model)) if isinstance(model, str) else Answerer()
        counter = choose_counter(self.model.model_name).counter
        address = SessionAddress(SqliteStore(":memory:"), IDS.generate())
        return Session.create(address, build_policy("tenfold", counter), model=self.model.model_name, answerer=answerer)

    @property
    def outcome(self) -> Outcome | None:
        """The result of the last check or compaction."""
        return self.session.outcome

    def use(self, model: Model | str, window: int | None = None) -> None:
        """Uses this model from the next run on. Raises `UsageError` if it cannot be opened.

        Without `window` it is the one that the policy names, else the model's, else the policy's default, None if it
        has none.
        """
        self.model = open_client(model) if isinstance(model, str) else model
        policy = self.session.policy
        self.window = window or policy.choose_window(resolve_window(self.model))

    @property
    def output_reserve(self) -> int:
        """Tokens of the window that are kept free for an answer."""
        return get_output_reserve(self._model_settings, self.window)

    # -- runs ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def enter_phase(self, phase: Phase) -> Iterator[None]:
        """Holds the agent in a phase. Raises `RuntimeError` naming the phase unless it is idle."""
        if self.phase != "idle":
            raise RuntimeError(f"the agent is in phase {self.phase!r}; wait until it is idle, then try again")
        self.phase = phase
        try:
            yield
        finally:
            self.phase = "idle"

    @asynccontextmanager
    async def _track_run(self, prompt: str, *, is_streaming: bool = False) -> AsyncIterator[dict[str, Any]]:
        """Wraps one run: yields the arguments for pydantic-ai, and reports the start and the end to listeners."""
        session_id, answerer = self.session.address.session, self.session.compactor.answerer
        status: Literal["ok", "failed", "stopped"] = "stopped"
        reason = ""
        is_started = False
        try:
            with self.enter_phase("running"):
                is_started = True
                await answerer.anotify(RunStart(session_id, prompt, get_current_time()))
                self._memory.start_run(window=self.window, is_streaming=is_streaming)
                history = await self._build_history(prompt)
                async with self.model:  # its connections belong to this event loop
                    yield {"message_history": history, "model": self.model, "usage_limits": NO_REQUEST_LIMIT}
                await answerer.anotify(RunSave(session_id, get_current_time()))
                await self._finish_run()
                status = "ok"
        except Exception as exc:
            status, reason = "failed", redact(f"{type(exc).__name__}: {exc}")
            raise
        finally:
            if is_started:
                text = self._memory.answer if status == "ok" else ""
                await answerer.anotify(RunEnd(session_id, status, text, reason, get_current_time()))

    async def invoke(self, prompt: str = "") -> str:
        """Sends `prompt`, runs until the model has answered, and returns the answer's text.

        An empty `prompt` resumes an unfinished run. Raises `RuntimeError` naming the phase if the agent is not
        idle, `UsageError` if there is nothing to resume, `ContextOverflow` if the request cannot be made to fit,
        and what pydantic-ai raises if the model fails. Everything up to the failure is in the session, even the
        beginning of an answer that was cut off.
        """
        async with self._track_run(prompt) as arguments:
            result: AgentRunResult[str] = await self._runner.run(None, **arguments)
        return result.output

    async def stream(self, prompt: str = "") -> AsyncGenerator[AgentStreamEvent | AgentRunResultEvent[str], None]:
        """Runs like `invoke`, and yields pydantic-ai's events as they arrive. The last event holds the result."""
        async with (
            self._track_run(prompt, is_streaming=True) as arguments,
            self._runner.run_stream_events(None, **arguments) as events,
        ):
            async for event in events:
                yield event

    async def _build_history(self, prompt: str) -> list[Any]:
        if prompt:
            await self._async_session.append(Message("user", (Text(prompt),), "human"))
        elif self._is_interrupted():
            await self._async_session.append(Message("user", (Text(RESUME_PROMPT),), "harness"))
        return await asyncio.to_thread(encode_messages, self.session.view.get_messages(), {})

    def _is_interrupted(self) -> bool:
        """Returns whether the session ends in an unfinished answer, or in tool calls without all their results.

        Raises `UsageError` if there is nothing to resume.
        """
        view = self.session.view
        if view.open_step is not None:
            return True
        entries = (view.path.get_entry(at) for at in range(view.path.length - 1, -1, -1))
        last = next(
            (m for e in entries if (m := get_message(e)) is not None and (m.status != "ok" or is_visible(m))), None
        )
        if last is None:
            raise UsageError("the session is empty, so there is nothing to resume: say what to do")
        if last.role == "assistant" and last.status == "ok":
            raise UsageError("the last answer is complete, so there is nothing to resume: say what to do next")
        return last.role == "assistant"

    async def _finish_run(self) -> None:
        """Compacts at the end of a successful run, if that is due.

        It is due if someone requested it during the run, or if the policy checks at the end of a run and its trigger
        fires.
        """
        focus, self._requested_focus = self._requested_focus, None
        if self.window is None:
            return
        if focus is not None:
            self.phase = "compaction"
            await self._memory.compact(replace(self.build_call(), demand="manual", focus=focus))
        elif "end_of_run" in self.session.policy.checks:
            self.phase = "compaction"
            await self._memory.compact(self.build_call())

    # -- compacting ----------------------------------------------------------------------------------------------------

    def build_call(self) -> Call:
        """Builds the check of the session for this agent's window and output reserve."""
        return replace(
            self.session.compactor.build_call(window=self.window), recall="tool", output_reserve=self.output_reserve
        )

    async def run_compaction(self, focus: str = "") -> Outcome:
        """Compacts now. That also does what `compact` has requested; the focus of the request comes first.

        Raises `RuntimeError` naming the phase if the agent is not idle, and `UsageError` if the window is unknown.
        """
        with self.enter_phase("compaction"):
            focus, self._requested_focus = self._requested_focus or focus, None
            return await self._memory.compact(replace(self.build_call(), demand="manual", focus=focus))

    def compact(self, focus: str = "") -> None:
        """Requests a compaction at the end of the current run, or of the next one.

        Raises `UsageError` if the window is unknown.
        """
        self.session.compactor.validate_call(self.build_call())
        self._requested_focus = focus

    def abort_compaction(self) -> None:
        """Cancels the compaction in progress, if any, even one inside a run. Nothing of it is appended."""
        self._memory.abort()
