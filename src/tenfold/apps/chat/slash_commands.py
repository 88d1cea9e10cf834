"""The commands of the chat, without a terminal: each takes an agent and an argument and returns text.

    COMMANDS -> parse_command("/expand 01a2") -> execute_command(agent, command, "01a2") -> CommandReply

Replies hold text from sessions, stores and providers as it is. Whoever draws it has to clean it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from textwrap import indent
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.apps.agent import Agent
from tenfold.apps.agent.factory import change_model
from tenfold.config import settings
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import get_text
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import BadInput, TenfoldError, UsageError, suggest_nearest
from tenfold.recall.tools import describe_hit, render_expanded
from tenfold.session.branches import BranchOptions, navigate
from tenfold.session.tree import build_rows, render_row
from tenfold.store.base import HIT_LIMIT
from tenfold.store.ids import shorten_id

SUMMARY_WORD = "summary"
"""The word after the id in `/tree ID summary`: summarize the branch that is left for the model."""
_COMMAND_PATTERN = re.compile(r"/([A-Za-z?][\w-]*)?(?:\s+(.*))?", re.DOTALL)


class CommandReply(Struct, frozen=True):
    """What a command answers.

    `input` is text to put into the prompt, and `copied` text for the clipboard. If `has_moved`, the session is now at
    another place of its tree, or another session. With a `page_title`, the text is long and is read in a pager.
    """

    text: str
    input: str = ""
    copied: str = ""
    has_moved: bool = False
    page_title: str = ""


CommandHandler = Callable[[Agent, str], str | CommandReply | Awaitable[str]]
"""Does what a command says, with the agent and the argument, in a thread. What it returns may have to be awaited."""


class OwnCommand(Protocol):
    """Does what a command says to the program itself, and returns what to show of it."""

    async def __call__(self, argument: str, /) -> CommandReply:
        """Does it. Raises `TenfoldError` for what it refuses."""
        ...


class Command(Struct, frozen=True):
    """One command. Without a `handler`, the program that draws the chat does what it says.

    If `is_altering`, it changes the conversation and waits until the agent is idle.
    """

    name: str
    argument: str
    description: str
    handler: CommandHandler | None
    is_altering: bool = False

    def should_wait(self, argument: str) -> bool:
        """Returns whether it has to wait for an idle agent: without an argument, some commands only look."""
        return self.is_altering and not (self.name in ("tree", "resume") and not argument)


def parse_command(line: str) -> tuple[Command, str] | None:
    """Parses a line as a command and its argument. Returns None for a line that goes to the model.

    A word with another slash after it is a path. Raises `UsageError` for an unknown command, naming the nearest one.
    """
    matched = _COMMAND_PATTERN.fullmatch(line.strip())
    if matched is None:
        return None
    name = (matched[1] or "help").lower()
    command = next((c for c in COMMANDS if c.name == name), None)
    if command is None:
        raise UsageError(f"no command is called /{name}{suggest_nearest(name, [c.name for c in COMMANDS])}")
    return command, (matched[2] or "").strip()


async def execute_command(
    agent: Agent, command: Command, argument: str, own_commands: Mapping[str, OwnCommand] | None = None
) -> CommandReply:
    """Executes a command. What the command or the store refuses becomes a reply too, never an exception.

    `own_commands` do what commands without a handler say.
    """
    reply: str | CommandReply | Awaitable[str]
    try:
        if command.handler is None:
            reply = await (own_commands or {})[command.name](argument)
        else:
            reply = await asyncio.to_thread(command.handler, agent, argument)
        if isinstance(reply, Awaitable):
            reply = await reply
    except (TenfoldError, OSError, RuntimeError) as exc:  # `RuntimeError`: an agent that is not idle names its phase
        reply = f"/{command.name}: {exc}"
    return CommandReply(reply) if isinstance(reply, str) else reply


# -- compacting --------------------------------------------------------------------------------------------------------


async def compact(agent: Agent, focus: str) -> str:
    """Compacts now. `focus` says what the summary should dwell on."""
    return _describe_outcome(await agent.run_compaction(focus))


def _describe_outcome(out: Outcome) -> str:
    before, after = out.tokens_before, out.tokens_after
    if out.status != "compacted":
        return f"{out.status}: {out.reason} (the view takes {before:,} tokens)"
    must_keep = out.must_keep
    facts = f"; must-keep facts in view {must_keep.kept} of {must_keep.total}" if must_keep.total else ""
    missed = " missed" if out.target_missed else ""
    return (
        f"{before:,} -> {after:,} tokens, target {out.target:,}{missed}; messages "
        f"{out.messages_before:,} -> {out.messages_after:,}{facts}\nBlock {shorten_id(out.block)}: "
        "/expand shows what it replaced, /undo undoes it"
    )


def preview(agent: Agent, _: str) -> str:
    """Shows what `/compact` would do. Nothing is changed, and no model is called."""
    decision, plan = agent.session.preview(replace(agent.build_call(), demand="manual"))
    return "\n".join([decision.explain(), *([plan.explain()] if plan is not None else []), "nothing was changed"])


def undo(agent: Agent, _: str) -> str:
    """Undoes the newest compaction."""
    session = agent.session
    before, restored = session.take_reading().tokens, session.conversation.plan_undo("").restored
    block = session.undo()
    after = session.take_reading().tokens
    told = f"undone: Block {shorten_id(block)}; the view has {after:,} tokens again, instead of {before:,}"
    return "\n".join([told, *(f"in force again: Block {shorten_id(id_)}, which it had set aside" for id_ in restored)])


# -- looking -----------------------------------------------------------------------------------------------------------


def expand(agent: Agent, id_: str) -> str | CommandReply:
    """Shows what a Block replaced, one level down, or an original message. Without an id: the newest Block."""
    session = agent.session
    live = session.view.state.live_blocks
    if not id_ and not live:
        return "no compaction is in force; /expand ID shows one message"
    target = id_ or session.view.path.get_entry(live[-1]).id
    lines = session.expand(target)
    text = "\n\n".join(render_expanded(line) for line in lines)
    if len(lines) == 1:
        return CommandReply(text, page_title=f"entry {shorten_id(target)}")
    return CommandReply(text, page_title=f"{len(lines):,} messages behind {shorten_id(target)}")


def copy_answer(agent: Agent, number: str) -> CommandReply:
    """Copies an answer as it was written: the newest, or the one before it with 2, and so on."""
    if number and not re.fullmatch(r"[1-9]\d{0,3}", number):
        raise UsageError(f"a number says which answer to copy, 1 for the newest, not {number!r}")
    path, wanted = agent.session.view.path, int(number or 1)
    for at in range(path.length - 1, -1, -1):
        message = get_message(path.get_entry(at))
        text = get_text(message).strip() if message is not None and message.role == "assistant" else ""
        wanted -= bool(text)
        if text and not wanted:
            return CommandReply(f"copied {len(text):,} characters, if your terminal allows it", copied=text)
    raise UsageError("there is no such answer to copy")


def search(agent: Agent, words: str) -> str:
    """Searches the messages of this session, hidden ones included, and the summaries that are not in view."""
    if not words:
        return "/search WORDS finds the messages with these words; put a phrase in quotes"
    hits = agent.session.search(words)
    if not hits:
        return f"no message of this conversation has {to_one_line(words, 60)!r}"
    lines = [
        f"{hit.position}  {describe_hit(hit)}  ({shorten_id(hit.entry)})\n{indent(hit.snippet, '    ')}" for hit in hits
    ]
    more = f", the best {HIT_LIMIT}" if len(hits) == HIT_LIMIT else ""
    return "\n".join([*lines, f"{len(hits)} found{more}; /expand NUMBER prints one in full"])


def browse_tree(agent: Agent, argument: str) -> str | CommandReply:
    """Shows the tree as text. With an id, goes there.

    With `summary` after the id, the branch that is left is summarized for the model.
    """
    if not argument:
        return "\n".join(f"{shorten_id(row.id)}  {row.lead}{render_row(row)}" for row in build_rows(agent.session))
    target, _, rest = argument.partition(" ")
    if rest not in ("", SUMMARY_WORD):
        raise UsageError(f"after the id, only the word {SUMMARY_WORD!r} is allowed, not {rest!r}")
    options = BranchOptions(has_summary=rest == SUMMARY_WORD, window=agent.window)
    navigation = navigate(agent.session, target, options)
    match navigation.status:
        case "moved":
            summary_note = "; the model has a summary of the branch you left" if navigation.branch else ""
            input_note = "; edit your message and send it" if navigation.text else ""
            return CommandReply(
                f"moved to {shorten_id(target)}{summary_note}{input_note}", navigation.text, has_moved=True
            )
        case "same":
            return "you are there already"
        case _:
            return f"not moved, {navigation.status}: {navigation.reason}"


# -- settings ----------------------------------------------------------------------------------------------------------


def select_model(agent: Agent, name: str) -> str:
    """Shows the model, or changes it from the next run on."""
    if name:
        change_model(agent, name)
    window = f"{agent.window:,} tokens" if agent.window else "unknown, so nothing is compacted; set it with --window"
    verb = "the next run uses" if name else "the model is"
    return f"{verb} {agent.model.model_name} ({agent.model.system}); its window: {window}"


def show_settings(agent: Agent, _: str) -> str:
    """Shows the policy in force, its limits for the window, and where they come from."""
    session, window = agent.session, agent.window
    policy = session.policy
    try:
        where = settings.load_settings().where
        if where == "the environment":
            where = "no settings file; only environment variables are read"
    except (BadInput, UsageError) as exc:
        where = f"{exc}; the earlier settings stay in force"
    checks = "compacts automatically" if policy.auto else "compacts only on request"
    lines = [f"policy {policy.name}, {checks}; counted by {policy.counter.name}", f"settings: {where}"]
    if window is None:
        lines.append(f"window of {agent.model.model_name}: unknown, so nothing is compacted; set it with --window")
    else:
        reading = session.take_reading(window=window)
        limits = policy.get_limits(window, output_reserve=agent.output_reserve, floor=reading.floor)
        sizes = f"warns at {limits.warning:,}, compacts at {limits.soft:,} down to {limits.target:,}"
        lines.append(f"window {window:,} tokens; the view takes {reading.tokens:,} ({reading.source})")
        lines.append(f"limits: {sizes}, at the latest at {limits.hard:,}")
        lines += [limits.note] if limits.note else []
    has_model = session.compactor.answerer.model is not None
    writers = ", ".join(policy.summary.models)
    lines.append(f"summaries: {writers}" if has_model and writers else "summaries: written by code, without a model")
    lines.append(f"session {session.address.session}")
    return "\n".join(lines)


def show_help(_: Agent, argument: str) -> str:
    """Shows the commands and the keys."""
    del argument
    columns = max(len(f"/{c.name} {c.argument}") for c in COMMANDS)
    lines = [f"{f'/{c.name} {c.argument}'.strip():<{columns}}  {c.description}" for c in COMMANDS]
    return "\n".join([*lines, "", *KEY_HELP])


def leave(agent: Agent, _: str) -> str:
    """Says how to come back. The program itself does the leaving."""
    return f"tenfold chat --session {agent.session.address.session}"


KEY_HELP = (
    "Enter sends, Ctrl+J begins a new line, Tab completes, Up and Down call back what you sent.",
    "Escape stops what is running, PageUp and PageDown scroll, Ctrl+P opens the palette.",
    "Ctrl+C copies what the mouse selects, Ctrl+D leaves.",
    "What you type during a run is queued, and sent in order. @ completes the path of a file.",
)
COMMANDS: tuple[Command, ...] = (
    Command("compact", "[FOCUS]", "compacts now; the summary concentrates on FOCUS", compact, is_altering=True),
    Command("preview", "", "shows what /compact would do", preview),
    Command("undo", "", "undoes the newest compaction", undo, is_altering=True),
    Command("expand", "[ID]", "shows a message, or what a Block (the newest) replaced", expand),
    Command("search", "WORDS", "finds messages, including hidden ones", search),
    Command("tree", "", "shows the branches of this session, and goes to another", browse_tree, is_altering=True),
    Command("resume", "[SESSION]", "lists the sessions, or goes on with another one", None, is_altering=True),
    Command("inspect", "", "opens a page in your browser that shows this session", None),
    Command("copy", "[N]", "copies the newest answer, or the Nth newest", copy_answer),
    Command("model", "[NAME]", "shows the model, or switches to PROVIDER:NAME", select_model),
    Command("allowed", "[clear]", "shows what you always allow, or forgets it", None),
    Command("theme", "[NAME]", "shows the themes, or changes to one", None),
    Command("settings", "", "shows the policy, its limits, and where they come from", show_settings),
    Command("help", "", "shows this list", show_help),
    Command("quit", "", "leaves; the session is kept", leave),
)
