"""What the commands of the chat do, without a terminal: each takes an agent and an argument and gives text.

    COMMANDS -> parsed("/expand 01a2") -> answered(agent, command, "01a2") -> Reply

Text that a session, a store or a provider gave stands in the replies as it is: who draws it cleans it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from tenfold import settings
from tenfold.agent import Agent
from tenfold.agent.opening import change
from tenfold.branches import Wish, navigate
from tenfold.errors import BadInput, TenfoldError, UsageError
from tenfold.recall.tools import rendered
from tenfold.record.ask import Outcome
from tenfold.record.block import MUST_KEEP
from tenfold.shown import one_line
from tenfold.tui.trees import row_text, rows_of

MOST = 20_000
"""Characters that one reply may take: a few screens."""
HITS = 20
"""Results of a search."""
SUMMARY = "summary"
"""The word after the id in `/tree ID summary`: tell the branch that is left in a summary."""
_SHORT = 18
"""Characters of an id: its time and its number within that millisecond."""
_COMMAND = re.compile(r"/([A-Za-z?][\w-]*)?(?:\s+(.*))?", re.DOTALL)


class Reply(Struct, frozen=True):
    """What a command says. `input` is text to be put where the user types; `moved`: the conversation is another one."""

    text: str
    input: str = ""
    moved: bool = False


Do = Callable[[Agent, str], Awaitable[Reply]]


class Command(Struct, frozen=True):
    """One command. One that `alters` the conversation waits until the agent is idle; one that looks does not."""

    name: str
    argument: str
    what: str
    do: Do
    alters: bool = False

    def waits(self, argument: str) -> bool:
        """Whether it has to wait for an idle agent: `/tree` alone only looks."""
        return self.alters and not (self.name == "tree" and not argument)


def parsed(line: str) -> tuple[Command, str] | None:
    """The command that a line is, with its argument; None for a line that is said to the model.

    What goes on with another slash is a path. Raises `UsageError` for an unknown command, naming the nearest.
    """
    found = _COMMAND.fullmatch(line.strip())
    if found is None:
        return None
    name = (found[1] or "help").lower()
    command = next((c for c in COMMANDS if c.name == name), None)
    if command is None:
        raise UsageError(f"no command is called /{name}{settings.nearest(name, [c.name for c in COMMANDS])}")
    return command, (found[2] or "").strip()


async def answered(agent: Agent, command: Command, argument: str) -> Reply:
    """Carries a command out. What it refuses, and what the store refuses, is a reply too, never an exception."""
    try:
        return await command.do(agent, argument)
    except (TenfoldError, OSError) as exc:
        return Reply(f"/{command.name}: {exc}")
    except RuntimeError as exc:  # an agent that is not idle names its phase
        return Reply(f"/{command.name}: {exc}")


def short(id_: str) -> str:
    """An id as a person may type it again."""
    return id_[:_SHORT]


# -- compacting --------------------------------------------------------------------------------------------------------


async def compact(agent: Agent, focus: str) -> Reply:
    """Compacts now; `focus` is what a summary dwells on."""
    return Reply(_outcome(await agent.run_compaction(focus)))


def _outcome(out: Outcome) -> str:
    if out.status != "compacted":
        return f"{out.status}: {out.reason} (the view takes {out.tokens_before:,} tokens)"
    kept = [pair for kind, pair in out.facts.items() if kind in MUST_KEEP]
    must = f"; must-keep facts in view {sum(n for n, _ in kept)} of {sum(of for _, of in kept)}" if kept else ""
    missed = " missed" if out.target_missed else ""
    return (
        f"{out.tokens_before:,} -> {out.tokens_after:,} tokens, target {out.target:,}{missed}; messages "
        f"{out.messages_before:,} -> {out.messages_after:,}{must}\nBlock {short(out.block)}: /expand shows what it "
        "stands for, /undo takes it back"
    )


async def preview(agent: Agent, argument: str) -> Reply:
    """What `/compact` would do; nothing is changed and no model is asked."""
    del argument
    session = agent.session
    known = session.call(window=agent.window)
    call = replace(known, demand="manual", recall="tool", output_reserve=agent.output_reserve)
    decision, plan = await asyncio.to_thread(session.preview, call)
    what = "would compact" if decision.act else decision.status or "nothing to do"
    lines = [f"{what}: {decision.reason}", *([plan.explain()] if plan is not None else []), "nothing was changed"]
    return Reply("\n".join(lines))


async def undo(agent: Agent, argument: str) -> Reply:
    """Takes the newest compaction back."""
    del argument

    def undone() -> str:
        session = agent.session
        before = session.reading().estimate
        block = session.undo()
        return f"undone: Block {short(block)}; the view has {session.reading().estimate:,} tokens, it had {before:,}"

    return Reply(await asyncio.to_thread(undone))


# -- looking -----------------------------------------------------------------------------------------------------------


async def expand(agent: Agent, id_: str) -> Reply:
    """What a Block stands for, one level down, or a message as it was; the newest Block without an id."""
    session = agent.session
    live = session.view.marks.live
    if not id_ and not live:
        return Reply("no compaction is in force here: /expand ID shows the message or the Block of that id")
    named = id_ or session.view.path.at(live[-1]).id
    lines = await asyncio.to_thread(session.expand, named)
    text = "\n\n".join(rendered(line) for line in lines)
    if len(text) > MOST:
        text = f"{text[:MOST]}\n... {len(text) - MOST:,} more characters; /expand ID shows one of these messages"
    return Reply(f"{text}\n\n({len(lines):,} messages behind {short(named)})" if len(lines) != 1 else text)


async def search(agent: Agent, words: str) -> Reply:
    """Finds messages and summaries of this session, hidden ones too."""
    if not words:
        return Reply("/search WORDS finds messages that hold all the words; quote a phrase")
    hits = await asyncio.to_thread(lambda: agent.session.search(words, limit=HITS))
    if not hits:
        return Reply(f"nothing in this conversation holds {one_line(words, 60)!r}")
    lines = [f"{short(hit.entry)}  {hit.kind} at {hit.position}: {one_line(hit.snippet, 160)}" for hit in hits]
    more = f", the best {HITS}" if len(hits) == HITS else ""
    return Reply("\n".join([*lines, f"{len(hits)} found{more}; /expand ID prints one whole"]))


async def tree(agent: Agent, argument: str) -> Reply:
    """The tree as text; with an id, goes there, and with `summary` after it tells what is left in a summary."""
    if not argument:
        rows = await asyncio.to_thread(rows_of, agent.session)
        text = "\n".join(f"{short(row.id)}  {row.lead}{row_text(row)}" for row in rows)
        return Reply(text or "nothing was said yet")
    target, _, rest = argument.partition(" ")
    if rest not in ("", SUMMARY):
        raise UsageError(f"after the id only the word {SUMMARY!r} can stand, not {rest!r}")
    wish = Wish(summarize=rest == SUMMARY, window=agent.window)
    went = await asyncio.to_thread(navigate, agent.session, target, wish)
    match went.status:
        case "moved":
            told = "; the branch that was left is told in a summary" if went.branch else ""
            again = "; what was said there is in the input" if went.text else ""
            return Reply(f"went to {short(target)}{told}{again}", went.text, moved=True)
        case "same":
            return Reply("you are there already")
        case _:
            return Reply(f"{went.status}, and you are where you were: {went.reason}")


# -- settings ----------------------------------------------------------------------------------------------------------


async def model(agent: Agent, name: str) -> Reply:
    """Shows the model, or takes another one from the next run on."""
    if name:
        await asyncio.to_thread(change, agent, name)
    window = f"{agent.window:,} tokens" if agent.window else "not known: nothing is compacted until --window names it"
    verb = "from the next run on" if name else "the model is"
    return Reply(f"{verb} {agent.model.model_name} ({agent.model.system}); its window: {window}")


async def show_settings(agent: Agent, argument: str) -> Reply:
    """The policy in force, its limits in the window, and where they come from."""
    del argument
    return Reply("\n".join(await asyncio.to_thread(_settings, agent)))


def _settings(agent: Agent) -> list[str]:
    session, window = agent.session, agent.window
    policy = session.policy
    try:
        config = settings.read()
        where = config.where if config.where != "the environment" else "no settings file; the environment is read"
    except (BadInput, UsageError) as exc:
        where = f"{exc}; the settings before stay in force"
    checks = "compacts by itself" if policy.auto else "compacts only when asked"
    lines = [f"policy {policy.name}, {checks}; counted by {policy.counter.name}", f"settings: {where}"]
    if window is None:
        lines.append(f"window of {agent.model.model_name}: not known, so nothing is compacted; --window names it")
    else:
        reading = session.reading(window=window)
        limits = policy.trigger.limits(window, output_reserve=agent.output_reserve, floor=reading.floor)
        sizes = f"warns at {limits.warn:,}, compacts at {limits.soft:,} down to {limits.target:,}"
        lines.append(f"window {window:,} tokens; the view takes {reading.tokens:,} ({reading.source})")
        lines.append(f"limits: {sizes}, must at {limits.hard:,}")
    asks = session.answerer.model is not None or session.awaited is not None
    writers = ", ".join(policy.summary.models)
    lines.append(f"summaries: {writers}" if asks and writers else "summaries: by code alone, no model is asked")
    lines.append(f"session {session.place.session}")
    return lines


async def show_help(agent: Agent, argument: str) -> Reply:
    """The commands and the keys."""
    del agent, argument
    wide = max(len(f"/{c.name} {c.argument}") for c in COMMANDS)
    lines = [f"{f'/{c.name} {c.argument}'.strip():<{wide}}  {c.what}" for c in COMMANDS]
    return Reply("\n".join([*lines, "", *KEYS]))


async def leave(agent: Agent, argument: str) -> Reply:
    """Says how to come back; leaving is the program's part."""
    del argument
    return Reply(f"tenfold chat --session {agent.session.place.session}")


KEYS = (
    "Enter sends, Ctrl+J begins a new line, Escape stops what is under way, PageUp and PageDown scroll, Ctrl+D leaves.",
    "What is typed meanwhile waits and is sent in order.",
)
COMMANDS: tuple[Command, ...] = (
    Command("compact", "[FOCUS]", "compacts now; a summary dwells on FOCUS", compact, alters=True),
    Command("preview", "", "what /compact would do, without doing it", preview),
    Command("undo", "", "takes the newest compaction back", undo, alters=True),
    Command("expand", "[ID]", "what a Block stands for, or a message: the newest Block", expand),
    Command("search", "WORDS", "finds messages, hidden ones too", search),
    Command("tree", "", "the branches of this session, to go to another", tree, alters=True),
    Command("model", "[NAME]", "the model, or PROVIDER:NAME from the next run on", model),
    Command("settings", "", "the policy, its limits, and where they come from", show_settings),
    Command("help", "", "this list", show_help),
    Command("quit", "", "leaves; the session is kept", leave),
)
