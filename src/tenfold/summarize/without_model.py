"""Summaries without a model: a range as chronological lines, with more detail towards its end.

`write_extractive` tells as much as its token budget holds. `write_mechanical` states only counts and positions, and
never fails. Neither uses a word that the messages do not hold, apart from counts, roles and outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tenfold.record.message import Message, get_tool_calls
from tenfold.summarize.narrative import NarrativeItem, build_items, render_item, render_steps
from tenfold.text.excerpts import Count, Keep, excerpt, flatten

GROUP_SIZES = (6, 15, 40, 100)
"""Steps that one coarse line may cover. The first number that makes the text fit is used."""


class _NarrativePiece(Struct, frozen=True):
    """A user's message or a group of steps, with its text from the most to the least detailed."""

    first: int
    last: int
    levels: tuple[str, ...]
    items: tuple[NarrativeItem, ...]


def write_extractive(items: Sequence[tuple[int, Message]], *, budget: int, count: Count) -> str:
    """Writes `items` in at most `budget` tokens: every piece short at first, then more detail from the newest back."""
    narrative = build_items(items)
    pieces, sizes = _split_to_fit(narrative, budget, count)
    if not pieces:
        return write_mechanical(items, budget=budget, count=count)
    chosen, remaining = _choose_shortest(pieces, sizes, budget)
    for level, limit in ((0, remaining // 2), (1, remaining), (0, remaining)):
        remaining -= _refine_pieces(chosen, sizes, level, min(limit, remaining))
    text = _join_pieces(pieces, chosen)
    for number in range(len(pieces)):
        if not text or count([text])[0] <= budget:
            break
        chosen[number] = None
        text = _join_pieces(pieces, chosen)
    return text or write_mechanical(items, budget=budget, count=count)


def _split_to_fit(
    narrative: Sequence[NarrativeItem], budget: int, count: Count
) -> tuple[list[_NarrativePiece], list[list[int]]]:
    """Splits the narrative into pieces. The groups of steps get longer if the shortest form would not fit otherwise."""
    pieces: list[_NarrativePiece] = []
    sizes: list[list[int]] = []
    for longest in GROUP_SIZES:
        pieces = _split_pieces(narrative, longest)
        sizes = _count_sizes(pieces, count)
        if sum(size[2] for size in sizes) <= budget * 3 // 5:
            break
    return pieces, sizes


def _split_pieces(narrative: Sequence[NarrativeItem], longest: int) -> list[_NarrativePiece]:
    out: list[_NarrativePiece] = []
    run: list[NarrativeItem] = []
    for moment in narrative:
        if moment.speaker == "assistant":
            run.append(moment)
        if run and (moment.speaker != "assistant" or len(run) == longest):
            out.append(_build_steps_piece(run))
            run = []
        if moment.speaker != "assistant":
            short = render_item(moment)
            out.append(
                _NarrativePiece(
                    first=moment.first,
                    last=moment.last,
                    levels=(short, excerpt(flatten(short), 160, Keep.START), excerpt(flatten(short), 70, Keep.START)),
                    items=(moment,),
                )
            )
    if run:
        out.append(_build_steps_piece(run))
    return out


def _build_steps_piece(run: Sequence[NarrativeItem]) -> _NarrativePiece:
    coarse = render_steps(run)
    fine = "\n".join(render_item(moment) for moment in run)
    levels = (fine, excerpt(coarse, 500, Keep.START), excerpt(coarse, 110, Keep.START))
    return _NarrativePiece(first=run[0].first, last=run[-1].last, levels=levels, items=tuple(run))


def _count_sizes(pieces: Sequence[_NarrativePiece], count: Count) -> list[list[int]]:
    flat_sizes = count([level + "\n" for piece in pieces for level in piece.levels])
    return [flat_sizes[n * 3 : n * 3 + 3] for n in range(len(pieces))]


def _choose_shortest(
    pieces: Sequence[_NarrativePiece], sizes: Sequence[Sequence[int]], budget: int
) -> tuple[list[int | None], int]:
    """Chooses each piece's shortest form, and returns the tokens left for detail.

    If not even those fit, the oldest pieces are left out and two fifths of the budget are kept for detail.
    """
    remaining = budget - _reserve_gap_line(budget)
    reserve = 0 if sum(size[2] for size in sizes) <= remaining else remaining * 2 // 5
    remaining -= reserve
    chosen: list[int | None] = [None] * len(pieces)
    for number in range(len(pieces) - 1, -1, -1):
        if sizes[number][2] > remaining:
            break
        chosen[number] = 2
        remaining -= sizes[number][2]
    return chosen, remaining + reserve


def _reserve_gap_line(budget: int) -> int:
    """Returns the tokens reserved for the line that stands for the pieces left out."""
    return min(90, budget // 4)


def _refine_pieces(chosen: list[int | None], sizes: Sequence[Sequence[int]], level: int, budget: int) -> int:
    """Chooses a more detailed level, from the newest piece back until one does not fit. Returns the tokens spent."""
    spent = 0
    for number in range(len(chosen) - 1, -1, -1):
        current = chosen[number]
        if current is None or current <= level:
            continue
        more = sizes[number][level] - sizes[number][current]
        if spent + more > budget:
            break
        chosen[number] = level
        spent += more
    return spent


def _join_pieces(pieces: Sequence[_NarrativePiece], chosen: Sequence[int | None]) -> str:
    chosen_pieces = [(piece, level) for piece, level in zip(pieces, chosen, strict=True) if level is not None]
    lines = [piece.levels[level] for piece, level in chosen_pieces]
    if not chosen_pieces:
        return ""
    if chosen_pieces[0][0] is not pieces[0]:
        lines.insert(0, _describe_oldest(pieces[: next(n for n, level in enumerate(chosen) if level is not None)]))
    return "\n".join(lines)


def _describe_oldest(pieces: Sequence[_NarrativePiece]) -> str:
    """Describes the oldest pieces in one line, where they do not fit one by one."""
    items = [moment for piece in pieces for moment in piece.items]
    user_count = sum(moment.speaker == "user" for moment in items)
    answers = [moment for moment in items if moment.speaker == "assistant"]
    head = (
        f"[{pieces[0].first}-{pieces[-1].last}] earlier, in short: {user_count} user messages, {len(answers)} answers"
    )
    actions = render_steps(answers).partition(" | ")[2] if answers else ""
    return excerpt(f"{head} | {actions}" if actions else head, 320, Keep.START)


def write_mechanical(items: Sequence[tuple[int, Message]], *, budget: int, count: Count) -> str:
    """States counts, tool names, first and last position. Leaves parts out to fit any budget of at least 1 token."""
    if not items:
        return _choose_fitting(["No messages.", "-"], budget, count)
    roles = Counter(message.role for _, message in items)
    tools = Counter(call.name for _, message in items for call in get_tool_calls(message))
    first, last = items[0][0], items[-1][0]
    head = f"Entries {first} to {last}: {len(items)} messages"
    detail = ", ".join(f"{number} {role}" for role, number in sorted(roles.items()))
    called = ", ".join(f"{name} {number}x" for name, number in tools.most_common(12))
    forms = [f"{head} ({detail}). Tools: {excerpt(flatten(called), 400, Keep.START)}."] if called else []
    return _choose_fitting([*forms, f"{head} ({detail}).", f"{head}.", f"{first}-{last}", "-"], budget, count)


def _choose_fitting(forms: Sequence[str], budget: int, count: Count) -> str:
    sizes = count(forms)
    return next((form for form, size in zip(forms, sizes, strict=True) if size <= budget), "")
