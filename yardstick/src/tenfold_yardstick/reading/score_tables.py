"""The tables of the reading test: scores by method and size, by kind of question, and by third of the past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tenfold_yardstick.intervals import Resample, compute_interval, draw_resamples
from tenfold_yardstick.reading.question_files import THIRDS
from tenfold_yardstick.reading.scoring import AnswerScore, ReadingScores
from tenfold_yardstick.reading.views import ROUNDS_SIZE, ReadView
from tenfold_yardstick.tables import Table, find_most_frequent

_BLANK = "-"
RECALL_SUFFIX = " with recall"
_TOLERANCE = 1.02
"""A view up to 2 % above its budget counts as within it, because methods count with other tokenizers."""


def build_tables(result: ReadingScores) -> list[Table]:
    """Returns every table that has rows."""
    found = [
        build_score_table(result),
        build_size_table(result),
        _build_share_table(result, "kind of question", lambda score: score.category),
        _build_share_table(result, "third of the past", lambda score: score.third, THIRDS),
        build_unread_table(result),
        build_unable_table(result),
    ]
    return [table for table in found if table.rows]


def build_score_table(result: ReadingScores) -> Table:
    """Returns the scores at the main size with intervals, answers and tokens: the headline."""
    size, rounds = _get_main_place(result)
    resamples = draw_resamples(score.session for score in result.scores)
    rows: list[tuple[float, tuple[str, ...]]] = []
    for name, own in _group(s for s in result.scores if (s.size, s.rounds) == (size, rounds)).items():
        grades = _get_grades(own)
        if not grades:
            continue
        interval = compute_interval(_build_figure(own), resamples)
        views = [v for v in result.views if (v.method, v.size, v.rounds) == (own[0].method, size, rounds) and v.hash]
        cells = (
            f"{_average(grades):.3f}",
            f"{interval.low:.2f} to {interval.high:.2f}",
            str(grades.count(1.0)),
            str(grades.count(0.5)),
            f"{grades.count(-1.0) / len(grades):.1%}",
            str(len(grades)),
            *_describe_sizes(views),
            str(sum(score.is_stale for score in own)),
        )
        rows.append((_average(grades), (name, *cells)))
    figures = ("score", "95 %", "complete", "half", "misleading", "graded")
    columns = ("method", *figures, "tokens", "of budget", "above", "stale readings")
    note = (
        "The score is the mean grade: 1 complete, 0.5 a substantial part, 0 unknown or wrong, -1 misleading. The "
        "interval comes from resampled sessions. Tokens are the mean of the views, with the system prompt; above are "
        f"views more than 2 % over their size. A stale reading is of an older view and does not count. "
        f"{_describe_people(result)}."
    )
    ordered = [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
    return Table(f"Reading test at {_format_place(size, rounds)}", columns, ordered, note)


def build_size_table(result: ReadingScores) -> Table:
    """Returns the score of each method at each size, and after several rounds."""
    places = sorted({(score.rounds, score.size) for score in result.scores})
    rows: list[tuple[float, tuple[str, ...]]] = []
    for name, own in _group(result.scores).items():
        shares = [_get_grades(s for s in own if (s.rounds, s.size) == place) for place in places]
        if any(shares):
            cells = (f"{_average(grades):.3f}" if grades else _BLANK for grades in shares)
            rows.append((_average([grade for grades in shares for grade in grades]), (name, *cells)))
    ordered = [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
    columns = ("method", *(_format_place(size, rounds) for rounds, size in places))
    return Table("Reading test by size and rounds", columns, ordered if len(places) > 1 else [])


def build_unread_table(result: ReadingScores) -> Table:
    """Returns how many answers are missing: read from an older view, not read, or not graded."""
    rows: list[tuple[str, ...]] = []
    unread: list[str] = []
    for name, own in _group(result.scores).items():
        stale = sum(score.is_stale for score in own)
        missing = sum(score.grade is None for score in own) - stale
        if missing == len(own):
            unread.append(name)
        elif stale or missing:
            rows.append((name, str(len(own)), str(stale), str(missing)))
    notes = [f"{failure}." for failure in dict.fromkeys(result.failures)]
    if unread:
        rows.append((f"{len(unread)} others", "-", "-", "all"))
        notes.append(f"The others are {', '.join(unread)}.")
    columns = ("method", "questions", "stale readings", "not read or graded")
    return Table("Without a grade", columns, rows, " ".join(notes))


def build_unable_table(result: ReadingScores) -> Table:
    """Returns the methods that made no view somewhere, with the most frequent reason."""
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(view.method for view in result.views):
        own = [view for view in result.views if view.method == name]
        reasons = [view.unable for view in own if view.unable]
        if reasons:
            rows.append((name, f"{len(reasons)}/{len(own)}", find_most_frequent(reasons)))
    return Table("Views that could not be made", ("method", "of its views", "the reason most often"), rows)


def _build_share_table(
    result: ReadingScores, title: str, get_key: Callable[[AnswerScore], str], order: Sequence[str] = ()
) -> Table:
    size, rounds = _get_main_place(result)
    scores = [s for s in result.scores if (s.size, s.rounds) == (size, rounds) and s.grade is not None]
    keys = [key for key in order if any(get_key(s) == key for s in scores)]
    keys += sorted({get_key(score) for score in scores} - set(keys))
    rows: list[tuple[float, tuple[str, ...]]] = []
    for name, own in _group(scores).items():
        grades = [_get_grades(s for s in own if get_key(s) == key) for key in keys]
        cells = (f"{_average(each):.2f}" if each else _BLANK for each in grades)
        rows.append((_average(_get_grades(own)), (name, *cells)))
    first = next(iter(_group(scores).values()), [])
    counts = ", ".join(f"{key} {sum(get_key(s) == key for s in first)}" for key in keys)
    ordered = [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
    return Table(f"By {title}, at {_format_place(size, rounds)}", ("method", *keys), ordered, f"Questions: {counts}.")


def _get_main_place(result: ReadingScores) -> tuple[float, int]:
    """Returns the size and the rounds of the headline: 10 % once, if it was measured."""
    rounds = min((view.rounds for view in result.views), default=1)
    sizes = {view.size for view in result.views}
    return ROUNDS_SIZE if ROUNDS_SIZE in sizes else min(sizes, default=ROUNDS_SIZE), rounds


def _group(scores: Iterable[AnswerScore]) -> dict[str, list[AnswerScore]]:
    """Groups the scores by method, alone and with recall."""
    out: dict[str, list[AnswerScore]] = defaultdict(list)
    for score in scores:
        out[score.method + RECALL_SUFFIX * score.recall].append(score)
    return out


def _get_grades(scores: Iterable[AnswerScore]) -> list[float]:
    return [score.grade for score in scores if score.grade is not None]


def _average(grades: Sequence[float]) -> float:
    return sum(grades) / len(grades) if grades else 0.0


def _build_figure(scores: Sequence[AnswerScore]) -> Callable[[Resample], float]:
    """Returns the mean grade of a resample of the sessions."""
    grades: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.grade is not None:
            grades[score.session].append(score.grade)

    def compute(resample: Resample) -> float:
        count = sum(times * len(grades[name]) for name, times in resample.items() if name in grades)
        total = sum(times * sum(grades[name]) for name, times in resample.items() if name in grades)
        return total / count if count else 0.0

    return compute


def _describe_sizes(views: Sequence[ReadView]) -> tuple[str, str, str]:
    if not views:
        return (_BLANK, _BLANK, _BLANK)
    tokens = sum(view.tokens for view in views)
    above = sum(view.tokens > view.budget * _TOLERANCE for view in views)
    return f"{tokens / len(views):,.0f}", f"{tokens / sum(view.budget for view in views):.0%}", f"{above}/{len(views)}"


def _format_place(size: float, rounds: int) -> str:
    return f"{size:.0%}" + f", {rounds} rounds" * (rounds > 1)


def _describe_people(result: ReadingScores) -> str:
    readers, judges = ", ".join(result.readers) or "nobody", ", ".join(result.judges) or "nobody"
    sessions = len({score.session for score in result.scores})
    questions = len({(score.session, score.question) for score in result.scores})
    return f"{questions} questions about {sessions} sessions, read by {readers}, graded by {judges}"
