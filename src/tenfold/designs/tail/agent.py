"""The agent of the design behind the preset `tail`: a face of `Agent`, on the same loop and session.

    agent = Agent("anthropic:claude-haiku-4-5", session=session)
    face = TailAgent(agent)

    @face.on("session_before_compact")
    async def keep_it_all(event, ctx):
        return SessionBeforeCompactResult(cancel=True)

    await face.invoke("Which prices end in .99?")
    await face.run_compaction()  # False: a handler cancelled it

The handlers are asked and told of every compaction of the session, also of those that `agent` runs without the face.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

from msgspec.structs import replace

from tenfold.apps.agent.runtime import Agent, Phase
from tenfold.config.extensions import Extension
from tenfold.core.record.ask import Outcome
from tenfold.designs.tail.compaction import CompactionSettings, SettingsProvider, track_settings
from tenfold.designs.tail.hooks import NO_OPTIONS, CompactOptions, EventName, HandlerT, Milestone, TailHooks
from tenfold.designs.tail.session_context import SessionManager, get_compaction_entry
from tenfold.events import CompactionEnd, Event, RunEnd, RunSave
from tenfold.session import Session
from tenfold.session.branches import NO_SUMMARY, BranchOptions, NavigateResult, navigate
from tenfold.session.concurrency import register_host_loop


class TailAgent:
    """The design's agent. `agent` does the work, and `queue` holds prompts that wait for the end of the run.

    Handlers get this object as their second argument, `ctx`. What takes time is a coroutine.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        hooks: TailHooks | None = None,
        settings: CompactionSettings | SettingsProvider | None = None,
    ) -> None:
        """Puts `hooks` (default: new ones) around the session of `agent`.

        The policy of the session stays, so one that follows a settings file goes on following it. With `settings`, the
        preset `tail` with these sizes takes its place, and only its summary settings go on. A callable is called at
        every check; the last settings hold where it raises or returns unusable ones.
        """
        self.agent, self.hooks = agent, hooks or TailHooks()
        self.session_manager = SessionManager(agent.session)
        self.queue: list[str] = []
        self._pending: CompactOptions | None = None
        self._active: CompactOptions | None = None
        session = agent.session
        if settings is not None:
            report = session.compactor.answerer.report_problem
            session.compactor.use_policy(track_settings(settings, session.compactor.policy_provider, report))
        self._binding = self.hooks.attach(session, self, has_queue=lambda: bool(self.queue))
        requests = Extension("requests")
        requests.on(RunSave, CompactionEnd, RunEnd)(self._track_request)
        session.compactor.use_answerer(session.compactor.answerer.with_extensions([requests]))

    @property
    def session(self) -> Session:
        """The session, which is the memory of the agent."""
        return self.agent.session

    @property
    def phase(self) -> Phase:
        """What the agent is doing: idle, running or compaction."""
        return self.agent.phase

    @property
    def outcome(self) -> Outcome | None:
        """The result of the last check or compaction."""
        return self.agent.outcome

    @property
    def settings(self) -> CompactionSettings:
        """The settings in force now, as the session's policy says. The published ones if that has no such sizes."""
        return CompactionSettings.from_policy(self.session.policy)

    @property
    def context_tokens(self) -> int:
        """How many tokens the provider counts for the context. What was reported before a compaction is not used."""
        return self.session.take_reading(window=self.agent.window).tokens

    def on(self, name: EventName) -> Callable[[HandlerT], HandlerT]:
        """Registers a handler; see `TailHooks.on`."""
        return self.hooks.on(name)

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def invoke(self, prompt: str = "") -> str:
        """Sends `prompt`, then what waits in `queue`, and returns the last answer. For errors see `Agent.invoke`.

        At the end of each run the context is checked, and compacted if someone asked for that or if it is due.
        """
        answer = await self.agent.invoke(prompt)
        while self.queue:
            answer = await self.agent.invoke(self.queue.pop(0))
        return answer

    # -- compacting ----------------------------------------------------------------------------------------------------

    def should_compact(self) -> bool:
        """Whether a check would compact now: under `tail`, above window - reserve.

        The session's policy decides. Never if it is disabled, or for a window that is not known. What was compacted a
        moment ago is left alone until it has grown.
        """
        if self.agent.window is None or not self.session.policy.auto:
            return False
        return self.session.compactor.get_need(self.agent.build_call()) in ("soft", "hard")

    def compact(self, options: CompactOptions = NO_OPTIONS) -> None:
        """Requests a compaction at the end of the run (the design's `ctx.compact()`). Nothing happens before.

        Raises `UsageError` if the window is unknown.
        """
        self.agent.compact(options.custom_instructions or "")
        self._pending = options

    async def run_compaction(self, custom_instructions: str | None = None) -> bool:
        """Compacts now. Returns False if there was nothing to do or it was cancelled or failed; see `outcome`.

        Instructions of a request that waits come first. Raises `RuntimeError` naming the phase unless the agent is
        idle.
        """
        if self.phase == "idle":
            self._active, self._pending = self._pending, None
        outcome = await self.agent.run_compaction(custom_instructions or "")
        self._active = None
        if outcome.status != "compacted":
            return False
        await self._binding.emit(Milestone("save_point"))
        if not self.queue:
            await self._binding.emit(Milestone("settled"))
        return True

    def abort_compaction(self) -> None:
        """Cancels a running compaction: no Block is appended."""
        self.agent.abort_compaction()

    async def _track_request(self, event: Event) -> None:
        """Tells the one who requested a compaction of its result, if there is one."""
        match event:
            case RunSave():
                self._active, self._pending = self._pending, None
            case RunEnd():
                self._active = None
            case CompactionEnd(outcome=outcome) if self._active is not None:
                done, self._active = self._active.on_complete, None
                if done is not None:
                    before = outcome.tokens_before
                    entry = await asyncio.to_thread(
                        get_compaction_entry, self.session, outcome.block, tokens_before=before
                    )
                    answer = await asyncio.to_thread(done, entry.result)
                    if inspect.isawaitable(answer):
                        await answer

    # -- branches ------------------------------------------------------------------------------------------------------

    async def navigate_tree(self, target: str, options: BranchOptions = NO_SUMMARY) -> NavigateResult:
        """Moves to another entry, see `branches.navigate`. Raises `RuntimeError` unless the agent is idle."""
        options = options if options.window is not None else replace(options, window=self.agent.window)
        with self.agent.enter_phase("compaction"):
            register_host_loop()
            return await asyncio.to_thread(navigate, self.session, target, options)
