"""The chat program: it draws what the agent does, and carries out what the user types, one thing after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import ClassVar, TypeVar

from pydantic_ai.exceptions import AgentRunError, UserError
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget

from tenfold.apps.agent import Agent
from tenfold.apps.agent.approval import Action
from tenfold.apps.agent.demonstration import DEMONSTRATION
from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.chat import transcript_lines
from tenfold.apps.chat.full_text import build_action_lines
from tenfold.apps.chat.run_display import RunDisplay
from tenfold.apps.chat.screens import STAY_KEY, QuestionScreen, TreeScreen
from tenfold.apps.chat.slash_commands import Command, execute_command, parse_command
from tenfold.apps.chat.status import measure_fill
from tenfold.apps.chat.widgets import ChatTranscript, Prompt, QueueNotice, StatusLine
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
    RunStart,
)
from tenfold.models.provider import describe_error, without_keys
from tenfold.store.base import Store

DEMONSTRATION_NOTICE = (
    "You are talking to the built-in demonstration, which is a script and not a language model. To talk to a model, "
    "start with --model PROVIDER:NAME, or set a provider's key, such as ANTHROPIC_API_KEY."
)
QUIT_TIMEOUT = 5.0
"""Seconds that a run may take to end when the user leaves the program."""
MAX_ANSWERED = 500
"""Characters of what was asked that stay in the transcript beside the answer. The session holds the whole call."""
_BLUE, _DEFAULT = "ansi_blue", "ansi_default"
_ANSI_THEME = BUILTIN_THEMES["ansi-dark"]
THEME = replace(
    _ANSI_THEME,
    name="terminal",
    variables={
        **_ANSI_THEME.variables,
        **dict.fromkeys(("border", "border-blurred"), _BLUE),
        **{f"scrollbar{part}": _BLUE for part in ("", "-hover", "-active")},
        **{f"scrollbar-background{part}": _DEFAULT for part in ("", "-hover", "-active")},
    },
)
"""The terminal's own colours on its own background, so that it fits dark and light terminals."""

Part = TypeVar("Part", bound=Widget)
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
        self.register_theme(THEME)
        self.theme = THEME.name
        self.queue: deque[str] = deque()
        self.crash_error: Exception | None = None
        self.extension = Extension("chat")
        self.extension.on()(self._receive_event)
        self._early_reports: list[str] = []
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._queue_task: asyncio.Task[None] | None = None
        self._current_task: asyncio.Task[None] | None = None
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._activity = ""  # what is being done: "" nothing, "run", or a command's name
        self._is_compacting = self._has_warned = self._is_asking = False
        self._is_measuring = self._is_stale = False
        self.agent = agent_factory(self)

    def compose(self) -> ComposeResult:
        """Yields the transcript, the queued inputs, the status line and the prompt."""
        yield ChatTranscript()
        yield QueueNotice()
        yield StatusLine()
        yield Prompt()

    async def on_mount(self) -> None:
        """Shows the newest part of a session that is continued, and what was reported before the screen was there."""
        self._event_loop = asyncio.get_running_loop()
        self._prompt.focus()
        await self._show_history()
        if self.agent.model.model_name == DEMONSTRATION:
            self._add_line("mark", DEMONSTRATION_NOTICE)
        for text in self._early_reports:
            self._add_line("note", text)
        self._draw_status()
        self._request_measurement()

    def _find_widget(self, kind: type[Part]) -> Part | None:
        """Returns a widget of the chat's own screen, even below another screen; None if the program is ending."""
        return next((part for screen in self.screen_stack[:1] for part in screen.query(kind)), None)

    @property
    def _transcript(self) -> ChatTranscript:
        return self.screen_stack[0].query_one(ChatTranscript)

    @property
    def _prompt(self) -> Prompt:
        return self.screen_stack[0].query_one(Prompt)

    def _add_line(self, kind: transcript_lines.LineKind, text: str) -> None:
        transcript = self._find_widget(ChatTranscript)
        if transcript is not None and transcript.is_attached:
            transcript.add_line(kind, text)

    async def _show_history(self) -> None:
        for line in await asyncio.to_thread(transcript_lines.build_history, self.agent.session):
            self._add_line(line.kind, line.text)

    # -- events and reports --------------------------------------------------------------------------------------------

    def _receive_event(self, event: Event) -> None:
        """Receives an event, on whichever thread it happens."""
        self._call_on_loop(self._handle_event, event)

    def report(self, text: str) -> None:
        """Shows a problem with an extension or with the settings. May be called from any thread, at any time."""
        if self._event_loop is None:
            self._early_reports.append(text)
        else:
            self._call_on_loop(self._add_line, "note", text)

    def _call_on_loop(self, callback: Callable[..., object], *arguments: object) -> None:
        if self._event_loop is not None:
            with suppress(RuntimeError):  # the program has ended meanwhile
                self._event_loop.call_soon_threadsafe(callback, *arguments)

    def _handle_event(self, event: Event) -> None:
        self._is_compacting = isinstance(event, CompactionStart) or (
            self._is_compacting and not isinstance(event, CompactionEnd | CompactionSkip | CompactionFailure | RunEnd)
        )
        if isinstance(event, RunStart | RunEnd):
            return
        is_warning = isinstance(event, CompactionWarning)  # every check sends one, and once is enough
        has_reply = isinstance(event, CompactionSkip | CompactionFailure) and self._activity == "compact"
        line = transcript_lines.build_event_line(event)
        if line is not None and not (is_warning and self._has_warned) and not has_reply:
            self._add_line(line.kind, line.text)
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
        question = QuestionScreen(title, build_action_lines(action), keys, sudden=True, consent="y")
        self._is_asking = True
        self._draw_status()
        self.push_screen(question, lambda key: None if answer.done() else answer.set_result(key))
        try:
            yes = await answer == "y"
        finally:
            self._is_asking = False
            if (not answer.done() or answer.cancelled()) and question.is_current:
                question.dismiss(STAY_KEY)
            self._draw_status()
        self._add_line("note", f"{'you said yes' if yes else 'you said no'}: {to_one_line(action.line, MAX_ANSWERED)}")
        return yes

    # -- what the user types -------------------------------------------------------------------------------------------

    def on_prompt_submission(self, event: Prompt.Submission) -> None:
        """Takes a message for the model, or a command. What needs an idle agent waits in the queue."""
        self._transcript.anchor()
        self._handle_input(event.text)

    def _handle_input(self, text: str) -> None:
        try:
            parts = parse_command(text)
        except UsageError as exc:
            self._add_line("trouble", str(exc))
            self._prompt.prepend_text(text)
            return
        if parts is None or parts[0].should_wait(parts[1]):
            self.queue.append(text)
            if self._queue_task is None or self._queue_task.done():
                self._queue_task = self._start_background_task(self._run_queued_prompts())
            self._draw_status()
        elif parts[0].name == "quit":
            self._start_background_task(self.action_quit())
        elif parts[0].name == "tree":
            self.push_screen(TreeScreen(self.agent.session), lambda line: self._handle_input(line) if line else None)
        else:
            self._start_background_task(self._run_command(*parts, text))

    def _start_background_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Starts a task that nobody waits for. If it fails, its error is shown."""
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._finish_background_task)
        return task

    def _finish_background_task(self, task: asyncio.Task[None]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._add_line("trouble", describe_failure(exc))

    async def _run_queued_prompts(self) -> None:
        """Carries out the queued inputs, one after the other."""
        while self.queue:
            text = self.queue.popleft()
            parts = parse_command(text)
            self._activity = parts[0].name if parts else "run"
            self._current_task = asyncio.create_task(
                self._run_command(*parts, text) if parts else self._run_prompt(text)
            )
            self._draw_status()
            await asyncio.wait({self._current_task})
            self._report_failure(self._current_task)
            self._current_task, self._activity = None, ""
            self._is_compacting = False
            self._draw_status()
            self._request_measurement()

    def _report_failure(self, step: asyncio.Task[None]) -> None:
        """Shows that a run or a command was stopped or failed."""
        if step.cancelled():
            self._add_line("note", "stopped")
        elif (exc := step.exception()) is not None:
            self._add_line("trouble", describe_failure(exc))

    async def _run_command(self, command: Command, argument: str, text: str) -> None:
        self._add_line("you", text)
        reply = await execute_command(self.agent, command, argument)
        if reply.has_moved:
            await self._transcript.clear()
            await self._show_history()
        if reply.text:
            self._add_line("told", without_keys(reply.text))
        if reply.input:
            self._prompt.prepend_text(reply.input)
        self._draw_status()
        self._request_measurement()

    async def _run_prompt(self, prompt: str) -> None:
        self._add_line("you", prompt)
        stream = RunDisplay(self._transcript, self.set_timer)
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
        if pages < 0:
            self._transcript.scroll_page_up(animate=False)
        else:
            self._transcript.scroll_page_down(animate=False)

    def action_help_quit(self) -> None:
        """Tells how to leave: the user pressed Ctrl+C with nothing to copy."""
        self._add_line("note", "Escape stops what is running, Ctrl+D leaves")

    async def action_quit(self) -> None:
        """Stops whatever is running, and leaves."""
        self.agent.abort_compaction()
        step = {self._current_task} if self._current_task is not None else set()
        tasks = {task for task in self._background_tasks | step if task is not asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=QUIT_TIMEOUT)
        self.exit()

    # -- the status line -----------------------------------------------------------------------------------------------

    def _draw_status(self) -> None:
        line, notice, queue = self._find_widget(StatusLine), self._find_widget(QueueNotice), tuple(self.queue)
        if line is not None and notice is not None:
            line.show_activity(self._activity_text, queue, self.agent.model.model_name)
            notice.show_queue(queue)

    @property
    def _activity_text(self) -> str:
        if self._is_asking:
            return "asks you"
        if self._is_compacting or self._activity == "compact" or self.agent.phase == "compaction":
            return "compaction"
        return {"": "idle", "run": "running"}.get(self._activity, f"/{self._activity}")

    def _request_measurement(self) -> None:
        """Requests a measurement of the context. If one is running, another one follows it."""
        self._is_stale = True
        if not self._is_measuring:
            self._is_measuring = True
            self._start_background_task(self._measure_context())

    async def _measure_context(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                fill = await asyncio.to_thread(measure_fill, self.agent)
                if (line := self._find_widget(StatusLine)) is not None:
                    line.show_fill(fill)
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
