"""The chat program: it draws what the agent does, and carries out what the user types, one thing after the other."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar, TypeVar

from msgspec.structs import replace
from pydantic_ai.exceptions import AgentRunError, UserError
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.worker import Worker

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.agent.demonstration import DEMONSTRATION
from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.chat.approvals import AllowRule, escape_pattern, is_editable
from tenfold.apps.chat.ascii_screen import AsciiFilter, is_ascii_terminal
from tenfold.apps.chat.completion import CompletionSource, find_completions, list_recent_sessions
from tenfold.apps.chat.inspect_page import InspectPage, has_browser
from tenfold.apps.chat.prompt import CompletionList, Prompt
from tenfold.apps.chat.screens import (
    ALWAYS_KEY,
    PAUSE_SECONDS,
    STAY_KEY,
    PagerScreen,
    QuestionScreen,
    RuleScreen,
    TreeScreen,
    build_action_lines,
)
from tenfold.apps.chat.slash_commands import COMMANDS, Command, CommandReply, OwnCommand, execute_command, parse_command
from tenfold.apps.chat.transcript import (
    ChatTranscript,
    LineKind,
    RunDisplay,
    TranscriptItem,
    build_event_line,
    build_history,
    build_left_note,
    list_inputs,
)
from tenfold.apps.chat.widgets import StatusLine, measure_cost, measure_fill
from tenfold.config.extensions import Extension
from tenfold.core.record.block import Block
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.errors import TenfoldError, UsageError, suggest_nearest
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
from tenfold.store.ids import get_current_time, shorten_id

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
DEFAULT_THEME = "ansi-dark"
"""The theme unless TEXTUAL_THEME names one: the terminal's own colours. It fits light terminals too."""
AgentFactory = Callable[["Chat", str], Agent]
"""Opens the agent of a session ("": that of the command line), with the chat's `approve`, `extension` and `report`."""
Result = TypeVar("Result")


class Chat(App[None]):
    """The program.

    `agent` is what the user talks to, `queue` holds the inputs that wait, and `crash_error` is the error that ended the
    program, if one did.
    """

    CSS_PATH = "chat.tcss"
    TITLE = "tenfold chat"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-wide")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "leave", show=False, priority=True),
        Binding("escape", "stop", show=False),
    ]

    def __init__(
        self, agent_factory: AgentFactory, *, root: Path = Path(), location: str | None = None, is_ascii: bool = False
    ) -> None:
        """Raises what `agent_factory` raises. The terminal is untouched then.

        `root` is the folder whose files are completed. `location` is where the store is, None if no other process can
        open it. With `is_ascii` everything is drawn in ASCII.
        """
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        if not os.environ.get("TEXTUAL_THEME"):
            self.theme = DEFAULT_THEME
        self.animation_level = "none"
        self.is_ascii = is_ascii
        self.transcript, self.queue_notice = ChatTranscript(), TranscriptItem("note", "")
        self.queue_notice.id = "queue"
        self.status_line, self.completions = StatusLine(), CompletionList()
        self.prompt = Prompt(self.completions)
        self.queue: deque[str] = deque()
        self.crash_error: Exception | None = None
        self.extension = Extension("chat")
        self.extension.on()(self._receive_event)
        self._root, self._page = root, InspectPage(location)
        self._queue_task: asyncio.Task[None] | None = None
        self._current_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._activity = ""  # what is being done: "" nothing, "run", or a command's name
        self._is_compacting = self._has_warned = False
        self._is_measuring = self._is_stale = False
        self._allowed: list[AllowRule] = []
        self._own_commands: dict[str, OwnCommand] = {
            "resume": self._resume_session,
            "inspect": self._open_page,
            "allowed": self._show_allowed,
            "theme": self._change_theme,
        }
        self._agent_factory = agent_factory
        self.agent = agent_factory(self, "")

    def compose(self) -> ComposeResult:
        """Yields the transcript, the queued inputs, the status line, the completions and the prompt."""
        yield from (self.transcript, self.queue_notice, self.status_line, self.completions, self.prompt)

    async def on_mount(self) -> None:
        """Shows the newest part of a session that is continued."""
        self.prompt.focus()
        await self._show_history()
        if self.agent.model.model_name == DEMONSTRATION:
            self._add_line("mark", DEMONSTRATION_NOTICE)
        self._draw_status()
        self._request_measurement()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Returns what every drawn line passes through."""
        return [*super().get_line_filters(), *([AsciiFilter()] if self.is_ascii else [])]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yields the commands of the palette: those of the prompt. One that needs more words is put into the prompt."""
        if screen is not self.screen_stack[0]:
            return
        for command in COMMANDS:
            needs_words = command.argument and not command.argument.startswith("[")
            act = partial(self.prompt.prepend_text, f"/{command.name} ") if needs_words else None
            yield SystemCommand(
                f"/{command.name}", command.description, act or partial(self._handle_input, f"/{command.name}")
            )
        yield SystemCommand("Choose a theme", "changes the colours", self.action_change_theme)

    def _add_line(self, kind: LineKind, text: str) -> None:
        if self.transcript.is_attached:  # else the program is ending
            self.transcript.add_line(kind, text)

    async def _show_history(self) -> None:
        self.prompt.inputs.replace(await asyncio.to_thread(list_inputs, self.agent.session))
        for kind, text in await asyncio.to_thread(build_history, self.agent.session):
            if kind == "answer":
                await self.transcript.add_answer(text)
            else:
                self._add_line(kind, text)

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
            if isinstance(event, CompactionEnd):
                self._show_what_left(event.outcome.block)
        self._has_warned = not isinstance(event, CompactionEnd) and (self._has_warned or is_warning)
        self._draw_status()
        self._request_measurement()

    def _show_what_left(self, block: str) -> None:
        view = self.agent.session.view
        live = view.state.live_blocks
        entry = view.path.get_entry(live[-1]) if live else None
        if isinstance(entry, Block) and entry.id == block:
            self._add_line(*build_left_note(entry))

    async def approve(self, action: Action) -> bool:
        """Asks the user for an approval, showing all of the action. Leaving the program or stopping the run means no.

        A yes is taken once the end of the text was on the screen. What the user always allows is not asked again.
        """
        rule = next((rule for rule in self._allowed if rule.is_covering(action)), None)
        if rule is not None:
            self._add_line("note", f"allowed by {to_one_line(str(rule), 60)}: {to_one_line(action.line, MAX_ANSWERED)}")
            return True
        key = await self._ask_about(action)
        said = {"y": "you said yes", ALWAYS_KEY: "you always allow this"}.get(key, "you said no")
        self._add_line("note", f"{said}: {to_one_line(action.line, MAX_ANSWERED)}")
        return key in ("y", ALWAYS_KEY)

    async def _ask_about(self, action: Action) -> str:
        """Returns the key that answers the question. With `ALWAYS_KEY`, a rule was added."""
        title = "The model wants to change a file" if action.kind == "write" else "The model wants to run a command"
        keys = {"y": "yes", ALWAYS_KEY: "always", "n": "no", STAY_KEY: "no"}
        lines = build_action_lines(action, is_ascii=self.is_ascii)
        pause = PAUSE_SECONDS
        while True:
            question = QuestionScreen(title, lines, keys, pause=pause, consent=f"y{ALWAYS_KEY}")
            key = await self._await_screen(question, STAY_KEY) or STAY_KEY
            rule = await self._choose_rule(action) if key == ALWAYS_KEY else None
            if rule is not None:
                self._allowed.append(rule)
            if key != ALWAYS_KEY or rule is not None:
                return key
            pause = 0.0

    async def _choose_rule(self, action: Action) -> AllowRule | None:
        """Asks what else is allowed. What does not fit a line that can be edited is allowed as it is."""
        if not is_editable(action):
            return AllowRule(action.tool, escape_pattern(action.subject))
        return await self._await_screen(RuleScreen(action), None)

    async def _await_screen(self, screen: Screen[Result], refusal: Result) -> Result | None:
        """Opens a screen and returns its result. If the run is stopped meanwhile, it goes away with the refusal."""
        answer: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
        self.push_screen(screen, lambda result: None if answer.done() else answer.set_result(result))
        self._draw_status()
        try:
            return await answer
        finally:
            if (not answer.done() or answer.cancelled()) and screen.is_current:
                screen.dismiss(refusal)
            self._draw_status()

    # -- what the user types -------------------------------------------------------------------------------------------

    def on_prompt_submission(self, event: Prompt.Submission) -> None:
        """Takes a message for the model, or a command. What needs an idle agent waits in the queue."""
        self.transcript.anchor()
        self._handle_input(event.text)

    def on_text_area_changed(self, event: Prompt.Changed) -> None:
        """Looks for what the end of the text may be completed to."""
        if event.text_area is self.prompt:
            _: Worker[None] = self.run_worker(self._complete, group="completion", exclusive=True)

    async def _complete(self) -> None:
        typed = self.prompt.completable_text
        place = self.agent.session.address
        source = CompletionSource(
            self._root, partial(list_recent_sessions, place.store, place.namespace), sorted(self.available_themes)
        )
        found = await asyncio.to_thread(find_completions, typed, source) if typed else []
        if self.prompt.completable_text == typed:
            self.completions.show(found)

    def on_option_list_option_selected(self, event: CompletionList.OptionSelected) -> None:
        """Takes the completion that was clicked."""
        if event.option_list is self.completions:
            self.prompt.accept_completion()

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
        reply = await execute_command(self.agent, command, argument, self._own_commands)
        if reply.has_moved:
            await self.transcript.clear()
            await self._show_history()
        if reply.copied:
            self.copy_to_clipboard(reply.copied)
        if reply.page_title:
            text = await asyncio.to_thread(lambda: sanitize(without_keys(reply.text)))
            self.push_screen(PagerScreen(reply.page_title, text))
        elif reply.text:
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
                    if await stream.show_event(event):
                        self._draw_status()
                        self._request_measurement()
        finally:
            await stream.end()

    # -- what commands say to the program itself -----------------------------------------------------------------------

    async def _resume_session(self, argument: str) -> CommandReply:
        place = self.agent.session.address
        if not argument:
            rows = await asyncio.to_thread(list_recent_sessions, place.store, place.namespace)
            lines = [f"{id_}  {about}" for id_, about in rows]
            return CommandReply("\n".join(lines) or "the store holds no other session yet")
        agent = await asyncio.to_thread(self._agent_factory, self, argument)
        if agent.session.address.session != place.session:
            drop_empty_session(self.agent)
        self.agent, self._allowed = agent, []
        await self._page.stop()
        return CommandReply(f"this is session {shorten_id(agent.session.address.session)}", has_moved=True)

    async def _open_page(self, argument: str) -> CommandReply:
        del argument
        place = self.agent.session.address
        address = await self._page.start(place.session, place.namespace)
        if has_browser():
            self.open_url(address)
        self.transcript.add_line("told", "").show_address(address)
        return CommandReply("")

    async def _show_allowed(self, argument: str) -> CommandReply:
        if argument not in ("", "clear"):
            raise UsageError(f"after /allowed, only the word 'clear' is allowed, not {argument!r}")
        if argument:
            self._allowed.clear()
        lines = [str(rule) for rule in self._allowed]
        return CommandReply("\n".join(lines) or "you are asked before each change of a file and each command")

    async def _change_theme(self, argument: str) -> CommandReply:
        if argument and argument not in self.available_themes:
            raise UsageError(f"no theme is called {argument!r}{suggest_nearest(argument, list(self.available_themes))}")
        if argument:
            self.theme = argument
        others = ", ".join(sorted(self.available_themes))
        hint = f"to keep it, set TEXTUAL_THEME={self.theme}" if argument else f"there are: {others}"
        return CommandReply(f"the theme is {self.theme}; {hint}")

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
        self._add_line("note", "Escape stops what is running, Ctrl+D leaves, and /copy copies an answer")

    async def action_leave(self) -> None:
        """Leaves by Ctrl+D. In the pager that scrolls, as in every pager."""
        if isinstance(self.screen, PagerScreen):
            self.screen.action_half(1)
        else:
            await self.action_quit()

    async def action_quit(self) -> None:
        """Stops whatever is running, and leaves."""
        self.agent.abort_compaction()
        tasks = {task for task in self._tasks if task is not asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=QUIT_TIMEOUT)
        self.exit()

    async def on_unmount(self) -> None:
        """Ends the process that serves the page."""
        await self._page.stop()

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
        if any(isinstance(screen, QuestionScreen | RuleScreen) for screen in self.screen_stack):
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
                if not self._activity:  # it reads the whole session
                    self.status_line.cost = await asyncio.to_thread(measure_cost, self.agent)
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
    elif isinstance(exc, AgentRunError | UserError):
        text = describe_error(exc)
    else:
        text = f"{type(exc).__name__}: {without_keys(str(exc))}"
    return to_one_line(text, 800)


def drop_empty_session(agent: Agent) -> bool:
    """Removes the session if nothing was ever said in it. Returns whether it did."""
    place = agent.session.address
    info = place.store.read_info(place.namespace, place.session)
    if info is None or info.format or place.store.read_heads(place.namespace, place.session):
        return False
    place.store.purge(place.namespace, place.session, None, now=get_current_time())
    return True


def run_chat(store: Store, options: AgentOptions, *, location: str | None = None) -> Chat:
    """Opens the agent and runs the program until the user leaves it. See `Chat` for `location`.

    Raises what `open_agent` raises before the terminal is touched, and `TenfoldError` if the program crashed.
    """

    def open_session(chat: Chat, session: str) -> Agent:
        wanted = replace(options, session=session) if session else options
        return open_agent(store, wanted, chat.approve, extensions=(chat.extension,), report=chat.report)

    chat = Chat(open_session, root=options.root, location=location, is_ascii=is_ascii_terminal(os.environ))
    chat.run()
    if chat.crash_error is not None:
        raise TenfoldError(f"the chat crashed, and its session is kept: {describe_failure(chat.crash_error)}")
    return chat
