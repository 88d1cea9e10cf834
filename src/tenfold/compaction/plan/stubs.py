"""What stands for an elided message: every text that a stage writes by code, in the styles that the policies name.

Secrets are redacted in what is quoted here. A hint says how the original can be read, where there is a way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from msgspec.structs import replace

from tenfold.compaction.facts.tool_calls import classify_tool, find_command, interpret_call
from tenfold.compaction.facts.tool_results import judge_result, list_body_lines
from tenfold.compaction.facts.user_words import split_pasted
from tenfold.compaction.plan.draft import Draft, RecallMode
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import (
    Document,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.excerpts import MAX_SEARCHED_CHARS, Keep, excerpt, flatten
from tenfold.core.text.redaction import redact_cached
from tenfold.core.view.units import VisibleMessage
from tenfold.core.wire.marks import STEP_PREFIX

# -- hints -------------------------------------------------------------------------------------------------------------


def render_read_hint(recall: RecallMode, entry: str) -> str:
    """Says how the original can be read again, in the words of the recall mode; "" where there is none."""
    match recall:
        case "tool":
            return f'; recall_read(entry="{entry}") gives it back'
        case "cli":
            return f"; `tenfold expand {entry}` prints it"
        case "none":
            return ""


def render_expand_hint(recall: RecallMode, block: str) -> str:
    """Says how the messages behind a Block can be read again; "" where there is no recall."""
    match recall:
        case "tool":
            return f'[recall_expand(block="{block}") shows the messages that this stands for]'
        case "cli":
            return f"[`tenfold expand {block}` prints the messages that this stands for]"
        case "none":
            return ""


def render_hint_for(draft: Draft, shown: VisibleMessage, recall: RecallMode) -> str:
    """Says the same of the original that a message in view stands for."""
    at = shown.original_position
    return render_read_hint(recall, draft.view.path.get_entry(at).id if at is not None else "")


# -- tool outputs in another form --------------------------------------------------------------------------------------


def with_text(message: Message, text: str, *, keeps_other_parts: bool = True) -> Message:
    """Returns the output with `text` in place of all its texts. Images and the like stay, unless told otherwise."""
    kept = (part for part in _get_parts(message) if not _is_text(part)) if keeps_other_parts else ()
    parts = (*((Text(text),) if text else ()), *kept)
    result = get_tool_result(message)
    if result is None:  # an output that its format wrote as a user message
        return Message(message.role, parts, "tool")
    return Message("tool", (replace(result, content=parts),), "tool")


def cut_message(message: Message, max_lines: int) -> Message | None:
    """Returns a tool output with each text cut to `max_lines` lines. None if all are short, or it is no tool output."""
    if message.origin != "tool":
        return None
    parts = tuple(_cut_part(part, max_lines) for part in message.parts)
    return None if parts == message.parts else replace(message, parts=parts, native=None)


def _cut_part(part: Part, max_lines: int) -> Part:
    if isinstance(part, Text):
        return Text(excerpt(part.text, max_lines, Keep.LINE_ENDS))
    if isinstance(part, ToolResult):
        cut = (Text(excerpt(p.text, max_lines, Keep.LINE_ENDS)) if isinstance(p, Text) else p for p in part.content)
        return replace(part, content=tuple(cut))
    return part


def _get_parts(message: Message) -> tuple[Part, ...]:
    result = get_tool_result(message)
    return message.parts if result is None else result.content


def _is_text(part: Part) -> bool:
    return isinstance(part, Text) or (isinstance(part, Document) and bool(part.text))


# -- head and tail of a text, with the gap stated ----------------------------------------------------------------------

DROPPED_WORD = "dropped"
MAX_WHOLE_LINES = 10
"""An output of at most this many lines loses no whole line: it is limited by tokens alone."""


def shorten_output(text: str, lines: int, characters: int) -> str | None:
    """Returns head and tail of a text with the gap stated, None if the text is within both limits.

    Limited by lines and by characters, since one line may be a megabyte.
    """
    rows = text.splitlines()
    if len(rows) <= lines and len(text) <= characters:
        return None
    half, side = max(1, lines // 2), characters // 2
    head = excerpt("\n".join(rows[:half]), side, Keep.HEAD)
    tail = excerpt("\n".join(rows[len(rows) - half :]) if len(rows) > 1 else text, side, Keep.TAIL)
    if len(head) + len(tail) >= len(text):
        return None
    gap = len(rows) - head.count("\n") - tail.count("\n") - 2
    what = f"{gap:,} lines" if gap > 0 else f"{len(text) - len(head) - len(tail):,} characters"
    return _join_ends(head, f"{what} removed", tail)


def keep_ends(text: str, lines: int, characters: int, *, end: str = "") -> str:
    """Returns the first and last `lines` lines of a text, at most `characters` a side, with the gap stated.

    A text of at most `MAX_WHOLE_LINES` lines loses no whole line. `end` closes the marker. The text itself is returned
    if nothing would be dropped.
    """
    rows = text.removesuffix("\n").split("\n")
    half = len(rows) if len(rows) <= MAX_WHOLE_LINES else min(lines, len(rows) // 2)
    whole = 2 * half >= len(rows)
    first, last = (text, text) if whole else ("\n".join(rows[:half]), "\n".join(rows[-half:]))
    head, tail = excerpt(first, characters, Keep.HEAD), excerpt(last, characters, Keep.TAIL)
    missing = len(text) - len(head) - len(tail)
    if missing <= 0:
        return text
    gap = len(rows) - (head.count("\n") + bool(head)) - (tail.removesuffix("\n").count("\n") + bool(tail))
    cut = whole or head != first or tail != last
    what = [_count(gap, "line")] if gap > 0 else []
    what += [f"{missing:,} characters"] if cut or not what else []
    return _join_ends(head, f"{', '.join(what)} {DROPPED_WORD}{end}", tail)


def cut_request(text: str, characters: int, read_hint: str, head_share: float = 2 / 3) -> str:
    """Returns head and tail of a request, that many characters together, and what is left out between them."""
    most = int(characters * head_share)
    head, tail = excerpt(text, most, Keep.HEAD), excerpt(text, characters - most, Keep.TAIL)
    last, first = head.rfind("\n"), tail.find("\n") + 1
    head = head[:last] if last > len(head) // 2 else head
    tail = tail[first:] if first and first < len(tail) // 2 else tail
    return _join_ends(head, _describe_request_gap(len(text) - len(head) - len(tail), read_hint), tail)


def _describe_request_gap(characters: int, read_hint: str) -> str:
    return f"{characters:,} characters of the request left out{read_hint}"


def cut_attachments(text: str, characters: int, read_hint: str) -> str:
    """Returns a request in about that many characters: what is pasted in it is cut first, then the user's own words.

    Of each pasted part the beginning stays, and of the longest own part head and tail. Each gap is stated. A request
    without pasted parts, or with many, is cut in its middle.
    """
    parts = _join_parts(split_pasted(text)) if len(text) <= MAX_SEARCHED_CHARS else []
    pasted = sum(not is_own for _, is_own in parts)
    gap_size = len(read_hint) + _GAP_CHARACTERS
    own = sum(len(part) + 1 for part, is_own in parts if is_own)
    share = max((characters - own) // max(pasted, 1) - gap_size, _LEAST_PASTED_CHARS)
    left = characters - sum(min(len(part), share + gap_size) for part, is_own in parts if not is_own)
    longest = max((len(part) for part, is_own in parts if is_own), default=0)
    kept = longest if own <= left else longest - (own - left) - gap_size
    if not pasted or kept < _LEAST_PASTED_CHARS:
        return cut_request(text, characters, read_hint, 0.5)
    shown: list[str] = []
    for part, is_own in parts:
        limit = kept if is_own and len(part) == longest else len(part) if is_own else share
        if len(part) <= limit + (not is_own) * gap_size:
            shown.append(part)
        elif is_own:
            shown.append(cut_request(part, limit, read_hint, 0.5))
        else:
            head = excerpt(part, limit, Keep.HEAD)
            shown.append(f"{head}\n[... {_describe_request_gap(len(part) - len(head), read_hint)} ...]")
    return "\n".join(shown)


_LEAST_PASTED_CHARS, _GAP_CHARACTERS = 160, 60
"""What a pasted part of a request keeps at least, so that a reader sees what it was, and what stating a gap takes."""


def _join_parts(parts: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Joins pasted parts between which nothing but blanks stands."""
    kinds = [is_own and bool(part.strip()) for part, is_own in parts]
    joined = groupby(zip(parts, kinds, strict=True), key=itemgetter(1))
    return [("\n".join(part for (part, _), _ in group), is_own) for is_own, group in joined]


def find_hidden_part(text: str, shown: str) -> str:
    """Returns the user's own lines of a request that `shown`, an excerpt of it with gaps, leaves out; else ""."""
    hidden: list[tuple[int, int]] = []
    pieces, at = _REQUEST_GAP.split(shown), 0
    for piece in pieces:
        found = text.find(piece, at)
        if found < 0:
            return ""
        hidden.append((at, found))
        at = found + len(piece)
    if len(pieces) == 1 or hidden[0][1]:
        return ""
    hidden.append((at, len(text)))
    out: list[str] = []
    begin = 0
    for part, is_own in split_pasted(text):
        end = begin + len(part)
        if is_own:
            out += [text[max(first, begin) : min(last, end)] for first, last in hidden if first < end and last > begin]
        begin = end + 1
    return "\n".join(part.strip("\n") for part in out if part.strip())


_REQUEST_GAP = re.compile(r"\n\[\.\.\. [\d,]+ characters of the request left out[^\n]*\](?:\n|\Z)")


def _join_ends(head: str, gap: str, tail: str) -> str:
    return f"{head}\n[... {gap} ...]\n{tail}"


# -- placeholders ------------------------------------------------------------------------------------------------------

CLEARED_PREFIX = "[output removed"
REMOVED_PREFIX = "[tool output removed: "
FIRST_CHARACTERS, _ENDS_CHARACTERS = 100, 60
"""Characters of an output's first line that its placeholder quotes, and of both where it quotes the last one too."""


def describe_cleared(draft: Draft, shown: VisibleMessage, tokens: Counted, recall: RecallMode) -> str:
    """Builds the text for a cleared output: its lines and tokens, and its first and last line."""
    text = get_text(shown.message)
    first, last = _quote_first_line(text.strip()), _quote_last_line(text)
    limit = _ENDS_CHARACTERS if last else FIRST_CHARACTERS
    quoted = f"first line: {excerpt(first, limit, Keep.START)}"
    quoted += f"; last line: {excerpt(last, limit, Keep.START)}" if last else ""
    lines = text.count("\n") + 1
    size = f"{lines:,} lines{_describe_other_parts(shown.message)}, {tokens:,} tokens"
    return f"{CLEARED_PREFIX}: {size}; {quoted}{render_hint_for(draft, shown, recall)}]"


def describe_superseded(draft: Draft, shown: VisibleMessage, path: str, tokens: Counted, recall: RecallMode) -> str:
    """Builds the text for a read of a file that was read or changed again. The call beside it names the folder."""
    name = path.rstrip("/").rpartition("/")[2]
    hint = render_hint_for(draft, shown, recall)
    return f"[superseded: {name} was read or changed again later; {tokens:,} tokens{hint}]"


def describe_removed(draft: Draft, shown: VisibleMessage, recall: RecallMode) -> str:
    """Builds the text for a removed output, from the original: the number of its lines, and how it began."""
    entry = draft.view.path.get_entry(shown.original_position) if shown.original_position is not None else None
    message = (get_message(entry) if entry is not None else None) or shown.message
    text = get_text(message)
    first = excerpt(_quote_first_line(text), FIRST_CHARACTERS + len("..."), Keep.START)
    what = _count(len(text.removesuffix("\n").split("\n")), "line") + _describe_other_parts(message)
    return f"{REMOVED_PREFIX}{what}; it began: {first}{render_hint_for(draft, shown, recall)}]"


def _quote_first_line(text: str) -> str:
    return redact_cached(text.split("\n", 1)[0][: 4 * FIRST_CHARACTERS]).strip()


def _quote_last_line(text: str) -> str:
    """Returns the last line that says something, without a prompt or exit code that a harness puts behind it."""
    lines = redact_cached(text).split("\n")[1:]  # the whole: a secret may have several lines
    said = (line.strip() for line in reversed(lines) if any(map(str.isalnum, line)))
    return next((line for line in said if list_body_lines(line[: 4 * FIRST_CHARACTERS])), "")


def _describe_other_parts(message: Message) -> str:
    """Describes how many parts of an output are no text, to follow the number of its lines; "" if there are none."""
    others = sum(not _is_text(part) for part in _get_parts(message))
    return f" and {_count(others, 'part')} not of text" if others else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"


# -- one line for a step -----------------------------------------------------------------------------------------------

OUTCOME_MARK = ") -> "
"""Ends the arguments of a call and begins how it ended."""
_LINE_CHARACTERS = 160
SIZE_NOTE = re.compile(r", [\d,]+ characters\b")


def build_step_stub(
    draft: Draft, shown: Sequence[VisibleMessage], recall: RecallMode, *, quoted_characters: int = 0
) -> Message:
    """Builds the line for a closed step: what was said, what was called, and how it ended.

    Of each result, up to `quoted_characters` are quoted. If the step ends with results, the line is a user's, as they
    are: providers refuse a request that ends with an answer of the model, and Gemini a call right after one.
    """
    text = " ".join(redact_cached(get_text(shown[0].message)[: 4 * _LINE_CHARACTERS]).split())
    text = excerpt(text, _LINE_CHARACTERS + len("..."), Keep.START)
    parts = [text] if text else []
    results = collect_results([s.message for s in shown])
    for call in get_tool_calls(shown[0].message):
        arguments = excerpt(redact_cached(_get_typed_input(call)[: 4 * _LINE_CHARACTERS]), _LINE_CHARACTERS, Keep.START)
        ended = describe_result(call, results.get(call.id), quoted_characters)
        parts.append(f"{call.name}({arguments}{OUTCOME_MARK}{ended}")
    hint = render_read_hint(recall, draft.view.path.get_entry(shown[0].position).id)
    role: Role = "user" if results else "assistant"
    return Message(role, (Text(f"{STEP_PREFIX}{'; '.join(parts)}{hint}"),), "tenfold")


def collect_results(messages: Iterable[Message]) -> dict[str, Message]:
    """Maps the ids of the calls of a step to the messages that hold their results."""
    return {result.call_id: m for m in messages if (result := get_tool_result(m)) is not None}


def describe_result(call: ToolCall, message: Message | None, quoted_characters: int = 0) -> str:
    """Describes how a tool call ended, and the size of its result."""
    result = get_tool_result(message) if message is not None else None
    if message is None or result is None:
        return "no result"
    text = get_text(message)
    outcome = judge_result(interpret_call(call), text, is_error=result.is_error, position=0)
    size = sum(len(t.text) for t in result.content if isinstance(t, Text))
    quoted = f': tool: "{excerpt(flatten(redact_cached(text)), quoted_characters)}"' if quoted_characters else ""
    return f"{outcome.note}, {size:,} characters{quoted}"


def _get_typed_input(call: ToolCall) -> str:
    """Returns a shell's command as somebody would type it, and the arguments of other tool calls."""
    if classify_tool(call.name) != "shell":
        return call.arguments
    parsed = interpret_call(call)
    command = find_command(parsed.arguments) if parsed.verb == "shell" else parsed.label
    return " ".join(command.split()) or call.arguments


def strip_step_mark(text: str) -> str:
    """Removes the mark and the sizes from a line that stands for a step, for use in a narrative.

    Sizes go because a later cut would change them.
    """
    return SIZE_NOTE.sub("", text.removeprefix(STEP_PREFIX)) if text.startswith(STEP_PREFIX) else text
