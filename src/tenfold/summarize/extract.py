"""Summaries without a model: a range as chronological lines, with more detail towards its end.

`write_extractive` tells as much as its token budget holds. `write_mechanical` states only counts and positions, and
never fails. Neither uses a word that the messages do not hold, apart from counts, roles and outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tenfold.record.message import Message, calls_of
from tenfold.summarize.section import Count
from tenfold.summarize.steps import Moment, moments, tell, tell_run
from tenfold.text import flat, opening

RUNS = (6, 15, 40, 100)
"""Steps that one coarse line may cover. The first number that makes the text fit is used."""


class _Piece(Struct, frozen=True):
    """A user's message or a group of steps, with its text from the most to the least detailed."""

    first: int
    last: int
    levels: tuple[str, ...]
    told: tuple[Moment, ...]


def extractive(items: Sequence[tuple[int, Message]], *, budget: int, count: Count) -> str:
    """Writes `items` in at most `budget` tokens: every piece short at first, then more detail from the newest back."""
    narrative = moments(items)
    pieces, sizes = _fitting(narrative, budget, count)
    if not pieces:
        return mechanical(items, budget=budget, count=count)
    chosen, remaining = _coarse(pieces, sizes, budget)
    for level, limit in ((0, remaining // 2), (1, remaining), (0, remaining)):
        remaining -= _refine(chosen, sizes, level, min(limit, remaining))
    text = _text(pieces, chosen)
    for number in range(len(pieces)):
        if not text or count([text])[0] <= budget:
            break
        chosen[number] = None
        text = _text(pieces, chosen)
    return text or mechanical(items, budget=budget, count=count)


def _fitting(story: Sequence[Moment], budget: int, count: Count) -> tuple[list[_Piece], list[list[int]]]:
    """Splits the narrative into pieces. The groups of steps get longer if the shortest form would not fit otherwise."""
    pieces: list[_Piece] = []
    sizes: list[list[int]] = []
    for longest in RUNS:
        pieces = _pieces(story, longest)
        sizes = _sizes(pieces, count)
        if sum(size[2] for size in sizes) <= budget * 3 // 5:
            break
    return pieces, sizes


def _pieces(story: Sequence[Moment], longest: int) -> list[_Piece]:
    out: list[_Piece] = []
    run: list[Moment] = []
    for moment in story:
        if moment.who == "assistant":
            run.append(moment)
        if run and (moment.who != "assistant" or len(run) == longest):
            out.append(_run_piece(run))
            run = []
        if moment.who != "assistant":
            short = tell(moment)
            out.append(
                _Piece(
                    first=moment.at,
                    last=moment.last,
                    levels=(short, opening(flat(short), 160), opening(flat(short), 70)),
                    told=(moment,),
                )
            )
    if run:
        out.append(_run_piece(run))
    return out


def _run_piece(run: Sequence[Moment]) -> _Piece:
    coarse = tell_run(run)
    fine = "\n".join(tell(moment) for moment in run)
    levels = (fine, opening(coarse, 500), opening(coarse, 110))
    return _Piece(first=run[0].at, last=run[-1].last, levels=levels, told=tuple(run))


def _sizes(pieces: Sequence[_Piece], count: Count) -> list[list[int]]:
    flat_sizes = count([level + "\n" for piece in pieces for level in piece.levels])
    return [flat_sizes[n * 3 : n * 3 + 3] for n in range(len(pieces))]


def _coarse(pieces: Sequence[_Piece], sizes: Sequence[Sequence[int]], budget: int) -> tuple[list[int | None], int]:
    """Chooses each piece's shortest form, and returns the tokens left for detail.

    If not even those fit, the oldest pieces are left out and two fifths of the budget are kept for detail.
    """
    remaining = budget - _mark_room(budget)
    reserve = 0 if sum(size[2] for size in sizes) <= remaining else remaining * 2 // 5
    remaining -= reserve
    chosen: list[int | None] = [None] * len(pieces)
    for number in range(len(pieces) - 1, -1, -1):
        if sizes[number][2] > remaining:
            break
        chosen[number] = 2
        remaining -= sizes[number][2]
    return chosen, remaining + reserve


def _mark_room(budget: int) -> int:
    """Returns the tokens reserved for the line that stands for the pieces left out."""
    return min(90, budget // 4)


def _refine(chosen: list[int | None], sizes: Sequence[Sequence[int]], level: int, room: int) -> int:
    """Chooses a more detailed level, from the newest piece back until one does not fit. Returns the tokens spent."""
    spent = 0
    for number in range(len(chosen) - 1, -1, -1):
        current = chosen[number]
        if current is None or current <= level:
            continue
        more = sizes[number][level] - sizes[number][current]
        if spent + more > room:
            break
        chosen[number] = level
        spent += more
    return spent


def _text(pieces: Sequence[_Piece], chosen: Sequence[int | None]) -> str:
    chosen_pieces = [(piece, level) for piece, level in zip(pieces, chosen, strict=True) if level is not None]
    lines = [piece.levels[level] for piece, level in chosen_pieces]
    if not chosen_pieces:
        return ""
    if chosen_pieces[0][0] is not pieces[0]:
        lines.insert(0, _untold(pieces[: next(n for n, level in enumerate(chosen) if level is not None)]))
    return "\n".join(lines)


def _untold(pieces: Sequence[_Piece]) -> str:
    """Describes the oldest pieces in one line, where they do not fit one by one."""
    items = [moment for piece in pieces for moment in piece.told]
    user_count = sum(moment.who == "user" for moment in items)
    answers = [moment for moment in items if moment.who == "assistant"]
    head = (
        f"[{pieces[0].first}-{pieces[-1].last}] earlier, in short: {user_count} user messages, {len(answers)} answers"
    )
    actions = tell_run(answers).partition(" | ")[2] if answers else ""
    return opening(f"{head} | {actions}" if actions else head, 320)


def mechanical(items: Sequence[tuple[int, Message]], *, budget: int, count: Count) -> str:
    """States counts, tool names, first and last position. Leaves parts out to fit any budget of at least 1 token."""
    if not items:
        return _shortest(["No messages.", "-"], budget, count)
    roles = Counter(message.role for _, message in items)
    tools = Counter(call.name for _, message in items for call in calls_of(message))
    first, last = items[0][0], items[-1][0]
    head = f"Entries {first} to {last}: {len(items)} messages"
    detail = ", ".join(f"{number} {role}" for role, number in sorted(roles.items()))
    called = ", ".join(f"{name} {number}x" for name, number in tools.most_common(12))
    forms = [f"{head} ({detail}). Tools: {opening(flat(called), 400)}."] if called else []
    return _shortest([*forms, f"{head} ({detail}).", f"{head}.", f"{first}-{last}", "-"], budget, count)


def _shortest(forms: Sequence[str], budget: int, count: Count) -> str:
    sizes = count(forms)
    return next((form for form, size in zip(forms, sizes, strict=True) if size <= budget), "")
