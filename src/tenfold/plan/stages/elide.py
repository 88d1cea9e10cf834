"""Stages that shorten or blank tool outputs, and leave every message where it is.

A step whose output is elided is one replacement: its call and its other results are kept untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.calls.doing import Doing, read_call
from tenfold.calls.outcomes import judge, took_effect
from tenfold.calls.shell import Effect
from tenfold.plan.draft import Draft, Goal, Piece, Recall, as_show
from tenfold.record.block import Say
from tenfold.record.message import Document, Message, Part, Text, ToolResult, calls_of, result_of, text_of
from tenfold.redact import redacted
from tenfold.text import head_of, opening, tail_of
from tenfold.view.units import Shown
from tenfold.wire import takes_text

_FIRST_LINE = 100
LEAST_SAVING = 40
"""Tokens that eliding one output must save. Below that, the text is worth more than its absence."""


def hint(recall: Recall, entry: str) -> str:
    """Says how the original can be read again, in the words of the recall mode; "" where there is none."""
    match recall:
        case "tool":
            return f'; recall_read(entry="{entry}") gives it back'
        case "cli":
            return f"; `tenfold expand {entry}` prints it"
        case "none":
            return ""


def expansion(recall: Recall, block: str) -> str:
    """Says how the messages behind a Block can be read again; "" where there is no recall."""
    match recall:
        case "tool":
            return f'[recall_expand(block="{block}") shows the messages that this stands for]'
        case "cli":
            return f"[`tenfold expand {block}` prints the messages that this stands for]"
        case "none":
            return ""


def outside_tail(draft: Draft, goal: Goal) -> list[int]:
    """Returns the indexes of the pieces that may be elided, oldest first: all but the recent `goal.tail_budget` tokens.

    A piece larger than the budget left is not protected, and uses up at most half of the tail. So one giant output does
    not leave everything before it without protection.
    """
    budget = goal.tail - draft.rest
    free: list[int] = []
    index = len(draft.pieces)
    while index and budget > 0:
        index -= 1
        tokens = draft.pieces[index].tokens
        if tokens > budget:
            free.append(index)
        budget -= min(tokens, goal.tail // 2)
    return [*range(index), *reversed(free)]


Elision = Callable[[Shown, int], str | Message | None]
"""Returns what stands for a tool output of that many tokens: a text in place of its content, or a whole message with
parts of it. None leaves the output alone.
"""


def elided(draft: Draft, piece: Piece, kind: str, elide: Elision) -> Piece:
    """Returns the piece with outputs elided where that saves tokens; the same piece where it saves none."""
    shown = piece.shown()
    show = [as_show(s) for s in shown] if not piece.changed else list(piece.show)
    if len(show) != len(shown) or piece.allotment:
        return piece
    sizes = list(piece.sizes)
    calls = {c.id for each in shown for c in calls_of(each.message)}
    stubs: list[tuple[int, Message]] = []
    for index, each in enumerate(shown):
        if each.message.origin != "tool" or each.key in draft.held or not takes_text(each.message, calls):
            continue
        text = elide(each, sizes[index])
        if text is not None:
            stubs.append((index, text if isinstance(text, Message) else _stub(each.message, text)))
    saved = 0
    for (index, stub), size in zip(stubs, draft.weigh([m for _, m in stubs]), strict=True):
        if sizes[index] - size >= LEAST_SAVING:
            saved += sizes[index] - size
            show[index], sizes[index] = Say(stub, shown[index].of), size
    if not saved:
        return piece
    why = f"saves {piece.before - piece.tokens + saved:,} tokens of tool output"
    return replace(piece, kind=kind, show=tuple(show), sizes=tuple(sizes), tokens=piece.tokens - saved, why=why)


def _stub(message: Message, text: str) -> Message:
    return _with_parts(message, (Text(text),))


def with_text(message: Message, text: str) -> Message:
    """Returns the output with `text` in place of all its texts. Images and the like stay."""
    kept = (part for part in _parts_of(message) if not _is_text(part))
    return _with_parts(message, (*((Text(text),) if text else ()), *kept))


def beside_text(message: Message) -> str:
    """Describes how many parts of an output are no text, to follow the number of its lines; "" if there are none."""
    others = sum(not _is_text(part) for part in _parts_of(message))
    return f" and {others} {'part' if others == 1 else 'parts'} not of text" if others else ""


def _parts_of(message: Message) -> tuple[Part, ...]:
    result = result_of(message)
    return message.parts if result is None else result.content


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    result = result_of(message)
    if result is None:  # an output that its format wrote as a user message
        return Message(message.role, parts, "tool")
    return Message("tool", (replace(result, content=parts),), "tool")


def _is_text(part: Part) -> bool:
    return isinstance(part, Text) or (isinstance(part, Document) and bool(part.text))


def _apply(draft: Draft, goal: Goal, kind: str, elide: Elision) -> Draft:
    return _each(draft, goal, lambda piece: elided(draft, piece, kind, elide))


def _each(draft: Draft, goal: Goal, treat: Callable[[Piece], Piece]) -> Draft:
    """Applies `transform` to the pieces outside the tail, oldest first, until the view is small enough."""
    pieces, tokens = list(draft.pieces), draft.tokens
    for index in outside_tail(draft, goal):
        if tokens <= goal.stop:
            break
        if not pieces[index].held:
            treated = treat(pieces[index])
            tokens += treated.tokens - pieces[index].tokens
            pieces[index] = treated
    return replace(draft, pieces=tuple(pieces))


def shortened(text: str, lines: int, characters: int) -> str | None:
    """Returns head and tail of a text with the gap stated, None if the text is within both limits.

    Limited by lines and by characters, since one line may be a megabyte.
    """
    rows = text.splitlines()
    if len(rows) <= lines and len(text) <= characters:
        return None
    half, side = max(1, lines // 2), characters // 2
    head = head_of("\n".join(rows[:half]), side)
    tail = tail_of("\n".join(rows[len(rows) - half :]) if len(rows) > 1 else text, side)
    if len(head) + len(tail) >= len(text):
        return None
    gap = len(rows) - head.count("\n") - tail.count("\n") - 2
    what = f"{gap:,} lines" if gap > 0 else f"{len(text) - len(head) - len(tail):,} characters"
    return f"{head}\n[... {what} removed ...]\n{tail}"


class Truncate(Struct, frozen=True):
    """Cuts tool outputs above `max_tokens` to their first and last lines."""

    over: int = 1_000
    lines: int = 40
    characters: int = 2_400
    name: ClassVar[str] = "truncate"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Shortens every output outside the tail that is above the limit."""

        def elide(shown: Shown, tokens: int) -> Message | None:
            text = shortened(text_of(shown.message), self.lines, self.characters) if tokens > self.over else None
            return with_text(shown.message, text) if text is not None else None

        return _apply(draft, goal, self.name, elide)


class Clear(Struct, frozen=True):
    """Blanks tool outputs outside the tail, and names their size and first line. Errors stay."""

    name: ClassVar[str] = "clear"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks every output that is longer than its placeholder."""

        def elide(shown: Shown, tokens: int) -> str | None:
            result = result_of(shown.message)
            if result is not None and result.error:
                return None
            text = text_of(shown.message)
            if text.startswith("[output removed"):
                return None
            first = opening(redacted(text.strip().split("\n", 1)[0][: 4 * _FIRST_LINE]).strip(), _FIRST_LINE)
            entry = draft.view.path.at(shown.of).id if shown.of is not None else ""
            lines = text.count("\n") + 1
            size = f"{lines:,} lines{beside_text(shown.message)}, {tokens:,} tokens"
            return f"[output removed: {size}; first line: {first}{hint(goal.recall, entry)}]"

        return _apply(draft, goal, self.name, elide)


class SupersededReads(Struct, frozen=True):
    """Blanks the output of a file read when the file is changed later, or read again as a whole.

    A read of a part of a file is superseded by the same read made again, or by a change, but not by another part.
    """

    name: ClassVar[str] = "superseded-reads"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks the output of every superseded read outside the tail."""
        old = _superseded(draft)

        def treat(piece: Piece) -> Piece:
            if not any((piece.first, c) in old for c in _answers(piece)):
                return piece
            return elided(draft, piece, self.name, _superseding(draft, goal, piece, old))

        return _each(draft, goal, treat)


_PART = re.compile(
    r"(?:\w*_)?(?:offset|limit|start|end|head|tail|first|last|skip|max|length|chunk|lines?|pages?|(?:view)?range)",
    re.IGNORECASE,
)
"""How the names of arguments begin with which tools read a part of a file."""


def _superseded(draft: Draft) -> dict[tuple[int, str], str]:
    """Finds the reads that a later call supersedes, by (first position of the unit, call id), with the path."""
    answers = {(piece.first, call): shown for piece in draft.pieces for call, shown in _answers(piece).items()}
    calls = [
        (piece.first, call)
        for piece in draft.pieces
        for shown in piece.shown()
        if shown.message.role == "assistant"
        for call in calls_of(shown.message)
    ]
    later: set[str] = set()
    out: dict[tuple[int, str], str] = {}
    for first, call in reversed(calls):
        parsed = read_call(call)
        if not parsed.effects:
            continue
        same = f"{call.name}\0{call.arguments}"
        paths = [e.path for e in parsed.effects]
        reads = all(e.verb == "read" for e in parsed.effects)
        if reads and (same in later or all(path in later for path in paths)):
            out[first, call.id] = paths[0]
        done = _done(parsed, answers.get((first, call.id)))
        if done == parsed.effects:
            later.add(same)
        whole = parsed.verb == "read" and not any(_PART.match(k) for k, value in parsed.arguments.items() if value)
        for effect in done:
            if whole or effect.verb != "read":
                later.update((effect.path, effect.target or effect.path))
    return out


_UNCHANGED = re.compile(r"\bunchanged\b|\bnot (?:been )?(?:changed|modified) since\b", re.IGNORECASE)
_OPENING = 100
"""The first characters of an output in which a tool may say that a file is unchanged, instead of showing it."""


def _done(doing: Doing, answer: Shown | None) -> tuple[Effect, ...]:
    """Returns what a call did to files, as far as its result tells. For a failed command: what it surely changed."""
    result = result_of(answer.message) if answer is not None else None
    if answer is None or result is None:
        return ()
    text = text_of(answer.message)
    if doing.verb == "read" and _UNCHANGED.search(text[:_OPENING]):  # only the earlier output has the content
        return ()
    if took_effect(judge(doing, text, flagged=result.error, at=answer.at).note):
        return doing.effects
    return tuple(e for e in doing.effects if doing.verb == "shell" and e.sure and e.verb != "read")


def _answers(piece: Piece) -> dict[str, Shown]:
    """Returns the tool messages of a piece by the id of the call they answer."""
    return {r.call: s for s in piece.shown() if (r := result_of(s.message)) is not None}


def _superseding(draft: Draft, goal: Goal, piece: Piece, old: dict[tuple[int, str], str]) -> Elision:
    first = piece.first

    def elide(shown: Shown, tokens: int) -> str | None:
        result = result_of(shown.message)
        if not isinstance(result, ToolResult) or result.error or (first, result.call) not in old:
            return None
        entry = draft.view.path.at(shown.of).id if shown.of is not None else ""
        name = old[first, result.call].rstrip("/").rpartition("/")[2]  # the tool call beside it has the folder
        return f"[superseded: {name} was read or changed again later; {tokens:,} tokens{hint(goal.recall, entry)}]"

    return elide
