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

from tenfold.agent import Agent
from tenfold.agent.demonstration import NAME as DEMONSTRATION
from tenfold.agent.opening import Wanted, opened
from tenfold.agent.workbench import Kind as Deed
from tenfold.errors import TenfoldError, UsageError
from tenfold.events import Ended, Event, Failed, RunEnded, RunStarted, Skipped, Started, Warned
from tenfold.extensions import Extension
from tenfold.llm.provider import error_of, without_keys
from tenfold.log.base import Store
from tenfold.shown import one_line
from tenfold.tui import words
from tenfold.tui.gauge import fill_of
from tenfold.tui.screens import STAY, Asking, TreeScreen
from tenfold.tui.slash import Command, answered, parsed
from tenfold.tui.stream import Stream
from tenfold.tui.widgets import Prompt, StatusLine, Transcript, Waiting

SCRIPTED = (
    "The built-in demonstration answers: a script, not a language model. --model PROVIDER:NAME, or a provider's key "
    "such as ANTHROPIC_API_KEY, brings a real one."
)
LEAVING = 5.0
"""Seconds that a run may take to end when the user leaves the program."""
_SHOWN = 3
"""Queued inputs that are shown."""
_BLUE, _OWN = "ansi_blue", "ansi_default"
_ANSI = BUILTIN_THEMES["ansi-dark"]
THEME = replace(
    _ANSI,
    name="terminal",
    variables={
        **_ANSI.variables,
        **dict.fromkeys(("border", "border-blurred"), _BLUE),
        **{f"scrollbar{part}": _BLUE for part in ("", "-hover", "-active")},
        **{f"scrollbar-background{part}": _OWN for part in ("", "-hover", "-active")},
    },
)
"""The terminal's own colours on its own background, so that it fits dark and light terminals."""

__all__ = ["Chat", "Wanted", "failure", "run"]
Part = TypeVar("Part", bound=Widget)
Opening = Callable[["Chat"], Agent]
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

    def __init__(self, opening: Opening) -> None:
        """Raises what `agent_factory` raises. The terminal is untouched then."""
        super().__init__(ansi_color=True)
        self.register_theme(THEME)
        self.theme = THEME.name
        self.queued: deque[str] = deque()
        self.broken: Exception | None = None
        self.extension = Extension("chat")
        self.extension.on()(self._hear)
        self._early: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._step: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._carried = ""  # what is being done: "" nothing, "run", or a command's name
        self._compacting = self._warned = self._asks = False
        self._measuring = self._stale = False
        self.agent = opening(self)

    def compose(self) -> ComposeResult:
        """Yields the transcript, the queued inputs, the status line and the prompt."""
        yield Transcript()
        yield Waiting()
        yield StatusLine()
        yield Prompt()

    async def on_mount(self) -> None:
        """Shows the newest part of a session that is continued, and what was reported before the screen was there."""
        self._loop = asyncio.get_running_loop()
        self._prompt.focus()
        await self._show_history()
        if self.agent.model.model_name == DEMONSTRATION:
            self._say("mark", SCRIPTED)
        for text in self._early:
            self._say("note", text)
        self._draw()
        self._measure()

    def _find(self, kind: type[Part]) -> Part | None:
        """Returns a widget of the chat's own screen, even below another screen; None if the program is ending."""
        return next((part for screen in self.screen_stack[:1] for part in screen.query(kind)), None)

    @property
    def _transcript(self) -> Transcript:
        return self.screen_stack[0].query_one(Transcript)

    @property
    def _prompt(self) -> Prompt:
        return self.screen_stack[0].query_one(Prompt)

    def _say(self, kind: words.Kind, text: str) -> None:
        transcript = self._find(Transcript)
        if transcript is not None and transcript.is_attached:
            transcript.say(kind, text)

    async def _show_history(self) -> None:
        for line in await asyncio.to_thread(words.history, self.agent.session):
            self._say(line.kind, line.text)

    # -- events and reports --------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        """Receives an event, on whichever thread it happens."""
        self._on_loop(self._heard, event)

    def report(self, text: str) -> None:
        """Shows a problem with an extension or with the settings. May be called from any thread, at any time."""
        if self._loop is None:
            self._early.append(text)
        else:
            self._on_loop(self._say, "note", text)

    def _on_loop(self, call: Callable[..., object], *given: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the program has ended meanwhile
                self._loop.call_soon_threadsafe(call, *given)

    def _heard(self, event: Event) -> None:
        self._compacting = isinstance(event, Started) or (
            self._compacting and not isinstance(event, Ended | Skipped | Failed | RunEnded)
        )
        if isinstance(event, RunStarted | RunEnded):
            return
        is_repeated = isinstance(event, Warned) and self._warned  # every check sends it, and once is enough
        has_reply = isinstance(event, Skipped | Failed) and self._carried == "compact"  # the command's reply says it
        self._warned = not isinstance(event, Ended) and (self._warned or isinstance(event, Warned))
        line = words.news(event)
        if line is not None and not is_repeated and not has_reply:
            self._say(line.kind, line.text)
        self._draw()
        self._measure()

    async def approve(self, line: str, deed: Deed) -> bool:
        """Asks the user for an approval. Leaving the program or stopping the run counts as no."""
        title = "The model wants to change a file" if deed == "write" else "The model wants to run a command"
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        question = Asking(title, line, {"y": "yes", "n": "no", STAY: "no"}, sudden=True)
        self._asks = True
        self._draw()
        self.push_screen(question, lambda key: None if answer.done() else answer.set_result(key))
        try:
            yes = await answer == "y"
        finally:
            self._asks = False
            if not answer.done() or answer.cancelled():
                question.dismiss(STAY)
            self._draw()
        self._say("note", f"{'you said yes' if yes else 'you said no'}: {line}")
        return yes

    # -- what the user types -------------------------------------------------------------------------------------------

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Takes a message for the model, or a command. What needs an idle agent waits in the queue."""
        self._transcript.anchor()
        self._take(event.text)

    def _take(self, text: str) -> None:
        try:
            parts = parsed(text)
        except UsageError as exc:
            self._say("trouble", str(exc))
            self._prompt.put(text)
            return
        if parts is None or parts[0].waits(parts[1]):
            self.queued.append(text)
            if self._work is None or self._work.done():
                self._work = self._aside(self._go_on())
            self._draw()
        elif parts[0].name == "quit":
            self._aside(self.action_quit())
        elif parts[0].name == "tree":
            self.push_screen(TreeScreen(self.agent.session), lambda line: self._take(line) if line else None)
        else:
            self._aside(self._carry_out(*parts, text))

    def _aside(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Starts a task that nobody waits for. If it fails, its error is shown."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._say("trouble", failure(exc))

    async def _go_on(self) -> None:
        """Carries out the queued inputs, one after the other."""
        while self.queued:
            text = self.queued.popleft()
            parts = parsed(text)
            self._carried = parts[0].name if parts else "run"
            self._step = asyncio.create_task(self._carry_out(*parts, text) if parts else self._run(text))
            self._draw()
            await asyncio.wait({self._step})
            self._over(self._step)
            self._step, self._carried = None, ""
            self._compacting = False
            self._draw()
            self._measure()

    def _over(self, step: asyncio.Task[None]) -> None:
        """Shows that a run or a command was stopped or failed."""
        if step.cancelled():
            self._say("note", "stopped")
        elif (exc := step.exception()) is not None:
            self._say("trouble", failure(exc))

    async def _carry_out(self, command: Command, argument: str, text: str) -> None:
        self._say("you", text)
        reply = await answered(self.agent, command, argument)
        if reply.moved:
            await self._transcript.clear()
            await self._show_history()
        if reply.text:
            self._say("told", without_keys(reply.text))
        if reply.input:
            self._prompt.put(reply.input)
        self._draw()
        self._measure()

    async def _run(self, prompt: str) -> None:
        self._say("you", prompt)
        stream = Stream(self._transcript, self.set_timer)
        try:
            async with aclosing(self.agent.stream(prompt)) as events:
                async for event in events:
                    if stream.show(event):
                        self._draw()
                        self._measure()
        finally:
            stream.end()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stops the run, or aborts the compaction. Queued inputs stay, and the next one is then carried out."""
        if self.agent.phase == "compaction":
            self.agent.abort_compaction()
        elif self._step is not None and self._carried == "run":
            self._step.cancel()

    def action_scroll_transcript(self, pages: int) -> None:
        """Scrolls the transcript."""
        if pages < 0:
            self._transcript.scroll_page_up(animate=False)
        else:
            self._transcript.scroll_page_down(animate=False)

    def action_help_quit(self) -> None:
        """Tells how to leave: the user pressed Ctrl+C with nothing to copy."""
        self._say("note", "Escape stops what is under way, Ctrl+D leaves")

    async def action_quit(self) -> None:
        """Stops whatever is running, and leaves."""
        self.agent.abort_compaction()
        step = {self._step} if self._step is not None else set()
        tasks = {task for task in self._beside | step if task is not asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVING)
        self.exit()

    # -- the status line -----------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        line, notice = self._find(StatusLine), self._find(Waiting)
        if line is None or notice is None:
            return
        line.doing, line.queued, line.model = self._doing, tuple(self.queued), self.agent.model.model_name
        line.refresh()
        inputs = [f"queued: {one_line(text, 200)}" for text in list(self.queued)[:_SHOWN]]
        overflow = [f"and {len(self.queued) - _SHOWN} more"] if len(self.queued) > _SHOWN else []
        notice.display = bool(inputs)
        notice.say("\n".join([*inputs, *overflow]))

    @property
    def _doing(self) -> str:
        if self._asks:
            return "asks you"
        if self._compacting or self._carried == "compact" or self.agent.phase == "compaction":
            return "compaction"
        return {"": "idle", "run": "running"}.get(self._carried, f"/{self._carried}")

    def _measure(self) -> None:
        """Requests a measurement of the context. If one is running, another one follows it."""
        self._stale = True
        if not self._measuring:
            self._measuring = True
            self._aside(self._measured())

    async def _measured(self) -> None:
        try:
            while self._stale:
                self._stale = False
                fill = await asyncio.to_thread(fill_of, self.agent)
                line = self._find(StatusLine)
                if line is not None:
                    line.fill = fill
                self._draw()
        finally:
            self._measuring = False

    # -- the end -------------------------------------------------------------------------------------------------------

    def _handle_exception(self, error: Exception) -> None:
        self.broken = self.broken or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Closes quietly. Textual's own method prints a traceback with the local variables in it, keys and all."""
        self._close_messages_no_wait()


def failure(exc: BaseException) -> str:
    """Describes an error in a sentence, without a traceback and without keys."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, TenfoldError):
        text = without_keys(str(exc))
    else:
        message = error_of(exc) if isinstance(exc, AgentRunError | UserError) else without_keys(str(exc))
        text = f"{type(exc).__name__}: {message}"
    return one_line(text, 800)


def run(store: Store, wanted: Wanted) -> Chat:
    """Opens the agent and runs the program until the user leaves it.

    Raises what `open_agent` raises before the terminal is touched, and `TenfoldError` if the program crashed.
    """
    chat = Chat(lambda ui: opened(store, wanted, ui.approve, extensions=(ui.extension,), report=ui.report))
    chat.run()
    if chat.broken is not None:
        raise TenfoldError(f"the chat broke off, its session is kept: {failure(chat.broken)}")
    return chat
