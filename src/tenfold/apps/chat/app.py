"""The chat program: it draws what the agent does, and carries out what the user types, one thing after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from itertools import islice
from typing import ClassVar

from pydantic_ai.exceptions import AgentRunError, UserError
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.agent.demonstration import DEMONSTRATION
from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.chat.screens import PAUSE_SECONDS, STAY_KEY, QuestionScreen, TreeScreen, build_action_lines
from tenfold.apps.chat.slash_commands import Command, execute_command, parse_command
from tenfold.apps.chat.transcript import (
    ChatTranscript,
    LineKind,
    RunDisplay,
    TranscriptItem,
    build_event_line,
    build_history,
)
from tenfold.apps.chat.widgets import Prompt, StatusLine, measure_fill
from tenfold.config.extensions import Extension
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import TenfoldError, UsageError
from tenfold.events import (
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionStart,
    CompactionWarning,
    Event,
    RunEnd,
)
from tenfold.models.provider import describe_error, without_keys
from tenfold.store.base import Store

DEMONSTRATION_NOTICE = (
    "You are talking to the built-in demonstration, which is a script and not a language model. To talk to a model, "
    "start with --model PROVIDER:NAME, or set a provider's key, such as ANTHROPIC_API_KEY."
)
MAX_QUEUED_SHOWN = 3
"""Queued inputs that are shown."""
QUIT_TIMEOUT = 5.0
"""Seconds that a run may take to end when the user leaves the program."""
MAX_ANSWERED = 500
"""Characters of what was asked that stay in the transcript beside the answer. The session holds the whole call."""
AgentFactory = Callable[["Chat"], Agent]
"""Opens the agent, with the chat's `approve`, `extension` and `report`."""


class Chat(App[None]):
    """The program.

    `agent` is what the user talks to, `queue` holds the inputs that wait, and `crash_error` is the error that ended the
    program, if one did.
    """

    CSS_PATH = "chat.tcss"
    TITLE = "tenfold chat"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "quit", show=False, priority=True),
        Binding("escape", "stop", show=False),
    ]

    def __init__(self, agent_factory: AgentFactory) -> None:
        """Raises what `agent_factory` raises. The terminal is untouched then."""
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"  # with the rules of the style sheet, it fits light terminals too
        self.animation_level = "none"
        self.transcript, self.queue_notice = ChatTranscript(), TranscriptItem("note", "")
        self.queue_notice.id = "queue"
        self.status_line, self.prompt = StatusLine(), Prompt()
        self.queue: deque[str] = deque()
        self.crash_error: Exception | None = None
        self.extension = Extension("chat")
        self.extension.on()(self._receive_event)
        self._queue_task: asyncio.Task[None] | None = None
        self._current_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._activity = ""  # what is being done: "" nothing, "run", or a command's name
        self._is_compacting = self._has_warned = False
        self._is_measuring = self._is_stale = False
        self.agent = agent_factory(self)

    def compose(self) -> ComposeResult:
        """Yields the transcript, the queued inputs, the status line and the prompt."""
        yield from (self.transcript, self.queue_notice, self.status_line, self.prompt)

    async def on_mount(self) -> None:
        """Shows the newest part of a session that is continued."""
        self.prompt.focus()
        await self._show_history()
        if self.agent.model.model_name == DEMONSTRATION:
            self._add_line("mark", DEMONSTRATION_NOTICE)
        self._draw_status()
        self._request_measurement()

    def _add_line(self, kind: LineKind, text: str) -> None:
        if self.transcript.is_attached:  # else the program is ending
            self.transcript.add_line(kind, text)

    async def _show_history(self) -> None:
        for line in await asyncio.to_thread(build_history, self.agent.session):
            self._add_line(*line)

    # -- events and reports --------------------------------------------------------------------------------------------

    def _receive_event(self, event: Event) -> None:
        """Receives an event, on whichever thread it happens."""
        has_reply = isinstance(event, CompactionSkip | CompactionFailure) and self._activity == "compact"
        self.call_later(self._handle_event, event, has_reply)

    def report(self, text: str) -> None:
        """Shows a problem with an extension or with the settings. May be called from any thread, at any time."""
        self.call_later(self._add_line, "note", text)

    def _handle_event(self, event: Event, has_reply: bool) -> None:  # noqa: FBT001 - `call_later` takes no keywords
        self._is_compacting = isinstance(event, CompactionStart) or (
            self._is_compacting and not isinstance(event, CompactionEnd | CompactionSkip | CompactionFailure | RunEnd)
        )
        is_warning = isinstance(event, CompactionWarning)  # every check sends one, and once is enough
        line = build_event_line(event)
        if line is not None and not (is_warning and self._has_warned) and not has_reply:
            self._add_line(*line)
        self._has_warned = not isinstance(event, CompactionEnd) and (self._has_warned or is_warning)
        self._draw_status()
        self._request_measurement()

    async def approve(self, action: Action) -> bool:
        """Asks the user for an approval, showing all of the action. Leaving the program or stopping the run means no.

        A yes is taken once the end of the text was on the screen.
        """
        title = "The model wants to change a file" if action.kind == "write" else "The model wants to run a command"
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        keys = {"y": "yes", "n": "no", STAY_KEY: "no"}
        question = QuestionScreen(title, build_action_lines(action), keys, pause=PAUSE_SECONDS, consent="y")
        self.push_screen(question, lambda key: None if answer.done() else answer.set_result(key))
        self._draw_status()
        try:
            yes = await answer == "y"
        finally:
            if (not answer.done() or answer.cancelled()) and question.is_current:
                question.dismiss(STAY_KEY)
            self._draw_status()
        self._add_line("note", f"{'you said yes' if yes else 'you said no'}: {to_one_line(action.line, MAX_ANSWERED)}")
        return yes

    # -- what the user types -------------------------------------------------------------------------------------------

    def on_prompt_submission(self, event: Prompt.Submission) -> None:
        """Takes a message for the model, or a command. What needs an idle agent waits in the queue."""
        self.transcript.anchor()
        self._handle_input(event.text)

    def _handle_input(self, text: str) -> None:
        try:
            parts = parse_command(text)
        except UsageError as exc:
            self._add_line("trouble", str(exc))
            self.prompt.prepend_text(text)
            return
        if parts is None or parts[0].should_wait(parts[1]):
            self.queue.append(text)
            if self._queue_task is None or self._queue_task.done():
                self._queue_task = self._start_task(self._run_queued_prompts())
            self._draw_status()
        elif parts[0].name == "quit":
            self._start_task(self.action_quit())
        elif parts[0].name == "tree":
            self.push_screen(TreeScreen(self.agent.session), lambda line: self._handle_input(line) if line else None)
        else:
            self._start_task(self._run_command(*parts, text))

    def _start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Starts a task. That it was stopped or failed is shown."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)
        return task

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._add_line("note", "stopped")
        elif (exc := task.exception()) is not None:
            self._add_line("trouble", describe_failure(exc))

    async def _run_queued_prompts(self) -> None:
        """Carries out the queued inputs, one after the other."""
        while self.queue:
            text = self.queue.popleft()
            parts = parse_command(text)
            self._activity = parts[0].name if parts else "run"
            self._current_task = self._start_task(self._run_command(*parts, text) if parts else self._run_prompt(text))
            self._draw_status()
            await asyncio.wait({self._current_task})
            self._current_task, self._activity = None, ""
            self._is_compacting = False
            self._draw_status()
            self._request_measurement()

    async def _run_command(self, command: Command, argument: str, text: str) -> None:
        self._add_line("you", text)
        reply = await execute_command(self.agent, command, argument)
        if reply.has_moved:
            await self.transcript.clear()
            await self._show_history()
        if reply.text:
            self._add_line("told", without_keys(reply.text))
        if reply.input:
            self.prompt.prepend_text(reply.input)
        self._draw_status()
        self._request_measurement()

    async def _run_prompt(self, prompt: str) -> None:
        self._add_line("you", prompt)
        stream = RunDisplay(self.transcript)
        try:
            async with aclosing(self.agent.stream(prompt)) as events:
                async for event in events:
                    if stream.show_event(event):
                        self._draw_status()
                        self._request_measurement()
        finally:
            stream.end()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stops the run, or aborts the compaction. Queued inputs stay, and the next one is then carried out."""
        if self.agent.phase == "compaction":
            self.agent.abort_compaction()
        elif self._current_task is not None and self._activity == "run":
            self._current_task.cancel()

    def action_scroll_transcript(self, pages: int) -> None:
        """Scrolls the transcript."""
        self.transcript.scroll_relative(y=pages * self.transcript.size.height)

    def action_help_quit(self) -> None:
        """Tells how to leave: the user pressed Ctrl+C with nothing to copy."""
        self._add_line("note", "Escape stops what is running, Ctrl+D leaves")

    async def action_quit(self) -> None:
        """Stops whatever is running, and leaves."""
        self.agent.abort_compaction()
        tasks = {task for task in self._tasks if task is not asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=QUIT_TIMEOUT)
        self.exit()

    # -- the status line -----------------------------------------------------------------------------------------------

    def _draw_status(self) -> None:
        self.status_line.activity, self.status_line.queued = self._activity_text, len(self.queue)
        self.status_line.model = self.agent.model.model_name
        waiting = [f"queued: {to_one_line(text, 200)}" for text in islice(self.queue, MAX_QUEUED_SHOWN)]
        more = len(self.queue) - len(waiting)
        self.queue_notice.display = bool(waiting)
        self.queue_notice.set_text("\n".join([*waiting, *([f"and {more} more"] if more else [])]))

    @property
    def _activity_text(self) -> str:
        if any(isinstance(screen, QuestionScreen) for screen in self.screen_stack):
            return "asks you"
        if self._is_compacting or self._activity == "compact" or self.agent.phase == "compaction":
            return "compaction"
        return {"": "idle", "run": "running"}.get(self._activity, f"/{self._activity}")

    def _request_measurement(self) -> None:
        """Requests a measurement of the context. If one is running, another one follows it."""
        self._is_stale = True
        if not self._is_measuring:
            self._is_measuring = True
            self._start_task(self._measure_context())

    async def _measure_context(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                self.status_line.fill = await asyncio.to_thread(measure_fill, self.agent)
                self._draw_status()
        finally:
            self._is_measuring = False

    # -- the end -------------------------------------------------------------------------------------------------------

    def _handle_exception(self, error: Exception) -> None:
        self.crash_error = self.crash_error or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Closes quietly. Textual's own method prints a traceback with the local variables in it, keys and all."""
        self._close_messages_no_wait()


def describe_failure(exc: BaseException) -> str:
    """Describes an error in a sentence, without a traceback and without keys."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, TenfoldError):
        text = without_keys(str(exc))
    else:
        message = describe_error(exc) if isinstance(exc, AgentRunError | UserError) else without_keys(str(exc))
        text = f"{type(exc).__name__}: {message}"
    return to_one_line(text, 800)


def run_chat(store: Store, options: AgentOptions) -> Chat:
    """Opens the agent and runs the program until the user leaves it.

    Raises what `open_agent` raises before the terminal is touched, and `TenfoldError` if the program crashed.
    """
    chat = Chat(lambda ui: open_agent(store, options, ui.approve, extensions=(ui.extension,), report=ui.report))
    chat.run()
    if chat.crash_error is not None:
        raise TenfoldError(f"the chat crashed, and its session is kept: {describe_failure(chat.crash_error)}")
    return chat
