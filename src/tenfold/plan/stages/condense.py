"""Stages that replace whole ranges by something shorter: one line per step, a marker, or a summary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.tool_calls import classify_tool, find_command, interpret_call
from tenfold.facts.tool_results import judge_result
from tenfold.plan.draft import UNWRITTEN_SUMMARY, Draft, DraftPiece, Goal, to_shown_item
from tenfold.plan.stages.elide import find_outside_tail, render_read_hint
from tenfold.record.block import Block, BlockPart, Replacement, ShownItem, Substitute
from tenfold.record.message import Message, Text, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.text.excerpts import clip_end
from tenfold.text.redaction import redact_cached
from tenfold.view.units import MessageKey, VisibleMessage
from tenfold.wire.marks import STEP_PREFIX

SUMMARY = "summary"
BATCHES = "batches"
"""The kind of a replacement by an archive of batches. Its writer makes it even where little can be shown."""
_LINE_CHARACTERS = 160
_SIZE_NOTE = re.compile(r", [\d,]+ characters\b")


def get_replacement(draft: Draft, ref: BlockPart) -> Replacement:
    """Returns the replacement that a reference in view names."""
    block = draft.view.path.get_entry(ref.block)
    assert isinstance(block, Block)
    return block.replacements[ref.index]


class OneLineStage(Struct, frozen=True):
    """Turns each closed step outside the tail into one line: what was said, what was called, and how it ended."""

    name: ClassVar[str] = "one-line"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Replaces steps, oldest first, until the target, where the line is shorter. User messages stay."""
        pieces, tokens = list(draft.pieces), draft.tokens
        for index in find_outside_tail(draft, goal):
            if tokens <= goal.stage_target:
                break
            line = condense_step(draft, pieces[index], goal) or pieces[index]
            tokens += line.tokens - pieces[index].tokens
            pieces[index] = line
        return replace(draft, pieces=tuple(pieces))


def condense_step(draft: Draft, piece: DraftPiece, goal: Goal) -> DraftPiece | None:
    """Turns a closed step into one line. None for what is no step, is protected, or would not get shorter."""
    shown = piece.get_visible_messages()
    if piece.protected_reason or piece.summary_budget or piece.units[0].block_part is not None:
        return None
    if not shown or shown[0].message.role != "assistant":
        return None
    if any(s.message.role == "user" for s in shown):
        return None
    entry = draft.view.path.get_entry(piece.first).id
    message = Message("assistant", (Text(_render_step_line(shown) + render_read_hint(goal.recall, entry)),), "tenfold")
    size = draft.measure_messages([message])[0]
    if size >= piece.tokens:
        return None
    why = "one line for the step"
    return replace(
        piece, kind=OneLineStage.name, shown_items=(Substitute(message),), sizes=(size,), tokens=size, reason=why
    )


def _render_step_line(shown: list[VisibleMessage]) -> str:
    text = " ".join(redact_cached(get_text(shown[0].message)[: 4 * _LINE_CHARACTERS]).split())
    text = clip_end(text, _LINE_CHARACTERS + len("..."))
    parts = [text] if text else []
    results = {r.call_id: s for s in shown if (r := get_tool_result(s.message)) is not None}
    for call in get_tool_calls(shown[0].message):
        arguments = clip_end(redact_cached(_get_typed_input(call)[: 4 * _LINE_CHARACTERS]), _LINE_CHARACTERS)
        parts.append(f"{call.name}({arguments}) -> {_describe_result(call, results.get(call.id))}")
    return STEP_PREFIX + "; ".join(parts)


def _describe_result(call: ToolCall, result_message: VisibleMessage | None) -> str:
    """Describes how a tool call ended, and the size of its result."""
    result = get_tool_result(result_message.message) if result_message is not None else None
    if result_message is None or result is None:
        return "no result"
    outcome = judge_result(
        interpret_call(call),
        get_text(result_message.message),
        is_error=result.is_error,
        position=result_message.position,
    )
    size = sum(len(t.text) for t in result.content if isinstance(t, Text))
    return f"{outcome.note}, {size:,} characters"


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
    return _SIZE_NOTE.sub("", text.removeprefix(STEP_PREFIX)) if text.startswith(STEP_PREFIX) else text


class DropMiddleStage(Struct, frozen=True):
    """Replaces everything between the first exchange and the tail by one marker. Protected messages stay."""

    keep_first: int = 1
    name: ClassVar[str] = "drop-middle"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Drops what does not fit between the two, and says how much."""
        first = find_floor_end(draft)
        exchanges = 0
        while first < len(draft.pieces):
            shown = draft.pieces[first].get_visible_messages()
            exchanges += bool(shown) and shown[0].message.role == "user"
            if exchanges > self.keep_first:
                break
            first += 1
        last = _find_tail_start(
            draft, goal.target - sum(p.tokens for p in draft.pieces[:first]) - _MARKER_TOKENS, first
        )
        if last - first < 1:
            return draft
        covered = draft.pieces[first:last]
        count = sum(len(p.get_visible_messages()) for p in covered)
        entry = draft.view.path.get_entry(covered[0].first).id
        text = (
            f"[{count:,} messages removed here, {sum(p.tokens_before for p in covered):,} "
            f"tokens{render_read_hint(goal.recall, entry)}]"
        )
        marker = Message("user", (Text(text),), "tenfold")
        kept = [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected]
        show: tuple[ShownItem, ...] = (*(to_shown_item(s) for s in kept), Substitute(marker))
        sizes = (*draft.measure_visible(kept), *draft.measure_messages([marker]))
        return draft.with_piece(
            first, _build_piece(covered, self.name, show, sizes, f"{count:,} messages by a marker"), until=last
        )


_MARKER_TOKENS = 60


class SummarizePrefixStage(Struct, frozen=True):
    """Replaces everything before the recent tail by one summary, after the user's own messages as far as they fit.

    An earlier summary in the range is updated, not summarized as text. With `keep_tail` False, everything that is
    closed is covered.
    """

    keep_tail: bool = True
    structural: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`summarize-prefix` or `summarize-all`."""
        return "summarize-prefix" if self.keep_tail else "summarize-all"

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Cuts where the tail uses up the rest of the target, and plans one summary over what lies before."""
        first = find_floor_end(draft)
        allotment = goal.summary_budget
        fixed = sum(p.tokens for p in draft.pieces[:first]) + draft.fixed_tokens
        users = _choose_user_messages(draft, goal, first)
        last = len(draft.pieces)
        if self.keep_tail:
            budget = goal.target - fixed - allotment - sum(users.values())
            draft, last = _fit_tail(draft, goal, budget, first, users)
        covered = draft.pieces[first:last]
        if not any(p.units[0].visible_messages for p in covered):
            return draft
        return draft.with_piece(first, build_summary_piece(draft, covered, users, allotment), until=last)


def build_summary_piece(
    draft: Draft, covered: tuple[DraftPiece, ...], users: dict[MessageKey, int], budget: int
) -> DraftPiece:
    """Builds one piece with a summary over these pieces, after those of their messages that stay.

    Protected messages and the given user messages stay.
    """
    kept = [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected or s.key in users]
    show: tuple[ShownItem, ...] = (*(to_shown_item(s) for s in kept), Substitute(UNWRITTEN_SUMMARY))
    sizes = (*draft.measure_visible(kept), budget)
    levels = [get_replacement(draft, u.block_part).level for p in covered for u in p.units if u.block_part is not None]
    why = describe_change(covered, len(kept), "one summary")
    piece = _build_piece(covered, SUMMARY, show, sizes, why)
    return replace(piece, summary_budget=budget, level=max(levels, default=-1) + 1)


def describe_change(covered: Sequence[DraftPiece], kept_count: int, what: str) -> str:
    """Describes what becomes of these pieces' messages, and how many of them stay word for word."""
    stay = f", {kept_count:,} of them {'stays' if kept_count == 1 else 'stay'}" if kept_count else ""
    return f"{sum(len(p.get_visible_messages()) for p in covered):,} messages become {what}{stay}"


class MergeStage(Struct, frozen=True):
    """Puts a parent over the oldest summaries of a level that holds more than the goal's fan-out."""

    name: ClassVar[str] = "merge"
    structural: ClassVar[bool] = True

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Merges the first run of more than `fan_out` neighbouring summaries of one level, except for the newest."""
        run: list[int] = []
        for index, piece in enumerate((*draft.pieces, None)):
            if (
                piece is not None and not piece.get_visible_messages()
            ):  # Block entries show nothing, and lie between the summaries
                continue
            level = self._get_summary_level(draft, piece) if piece is not None else None
            if level is not None and (not run or level == self._get_summary_level(draft, draft.pieces[run[0]])):
                run.append(index)
                continue
            if len(run) > goal.fan_out:
                break
            run = [index] if level is not None else []
        if len(run) <= goal.fan_out:
            return draft
        covered = draft.pieces[run[0] : run[-1]]
        allotment = max(goal.summary_overhead, min(goal.summary_budget, sum(p.tokens for p in covered) // 2))
        piece = build_summary_piece(draft, covered, {}, allotment)
        return draft.with_piece(
            run[0], replace(piece, kind=SUMMARY, reason=f"merges {len(run) - 1} summaries"), until=run[-1]
        )

    @staticmethod
    def _get_summary_level(draft: Draft, piece: DraftPiece) -> int | None:
        ref = piece.units[0].block_part
        if piece.is_changed or ref is None:
            return None
        summary = get_replacement(draft, ref)
        return summary.level if summary.kind == SUMMARY else None


def _build_piece(
    covered: tuple[DraftPiece, ...], kind: str, shown_items: tuple[ShownItem, ...], sizes: tuple[int, ...], reason: str
) -> DraftPiece:
    units = tuple(u for p in covered for u in p.units)
    return DraftPiece(units, sum(p.tokens_before for p in covered), sum(sizes), sizes, kind, shown_items, reason)


def find_floor_end(draft: Draft) -> int:
    """Returns the index of the first piece after the leading system messages and silent pieces among them."""
    for index, piece in enumerate(draft.pieces):
        if any(
            s.message.role != "system" or not s.is_original or s.message.origin == "tenfold"
            for s in piece.get_visible_messages()
        ):
            return index
    return len(draft.pieces)


def _choose_user_messages(draft: Draft, goal: Goal, first: int) -> dict[MessageKey, int]:
    """Chooses the user messages that stay verbatim: protected ones, and the newest within `goal.user_budget`."""
    kept: dict[MessageKey, int] = {}
    budget = goal.user_budget
    for piece in reversed(draft.pieces[first:]):
        for shown, size in zip(
            reversed(piece.get_visible_messages()), reversed(_measure_visible(draft, piece)), strict=True
        ):
            if shown.key in draft.protected:
                kept[shown.key] = size
            elif (
                shown.is_original
                and shown.message.role == "user"
                and shown.message.origin == "human"
                and size <= budget
            ):
                kept[shown.key] = size
                budget -= size
    return kept


def _measure_visible(draft: Draft, piece: DraftPiece) -> list[int]:
    return list(piece.sizes) if not piece.is_changed else draft.measure_visible(piece.get_visible_messages())


def _find_tail_start(draft: Draft, budget: int, first: int) -> int:
    """Returns the index where the tail begins: the newest pieces that fit the budget, after the open step."""
    budget -= draft.fixed_tokens
    index = len(draft.pieces)
    while index > first and draft.pieces[index - 1].tokens <= budget:
        index -= 1
        budget -= draft.pieces[index].tokens
    return index


def _fit_tail(
    draft: Draft, goal: Goal, budget: int, first: int, already_counted: dict[MessageKey, int]
) -> tuple[Draft, int]:
    """Returns the draft, and the index where its tail begins: the newest pieces that fit the budget.

    A step too large for what is left becomes one line, so that one giant step does not end the tail. Messages in
    `already_counted` cost nothing here, on whichever side of the cut they fall.
    """
    pieces = list(draft.pieces)
    index = len(pieces)
    while index > first:
        piece = pieces[index - 1]
        own = sum(already_counted.get(s.key, 0) for s in piece.get_visible_messages())
        if piece.tokens - own > budget:
            line = condense_step(draft, piece, goal)
            if line is None or line.tokens > budget:
                break
            piece = line
        index -= 1
        pieces[index] = piece
        budget -= piece.tokens - own
    return replace(draft, pieces=tuple(pieces)), index
