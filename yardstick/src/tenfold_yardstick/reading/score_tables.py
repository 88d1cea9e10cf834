"""The tables of the reading test: scores by method and size, by kind of question, and by third of the past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tenfold_yardstick.intervals import Resample, ResampleFigure, compute_interval, draw_resamples
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
    total = _count_main_questions(result)
    rows: list[tuple[str, ...]] = []
    for name, own in _rank_methods(result).items():
        grades = [grade for score in own for grade in score.grades]
        interval = compute_interval(_build_figure(own), resamples)
        views = [v for v in result.views if (v.method, v.size, v.rounds) == (own[0].method, size, rounds) and v.hash]
        cells = (
            f"{_average(_get_grades(own)):.3f}",
            _BLANK if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
            _describe_range(own),
            *(f"{grades.count(grade) / len(grades):.1%}" for grade in (1.0, 0.5, -1.0)),
            _describe_count(len(_get_grades(own)), total),
            _describe_readings(own),
            *_describe_sizes(views),
            str(sum(score.is_stale for score in own)),
        )
        rows.append((name, *cells))
    figures = ("score", "95 %", "range", "complete", "half", "misleading", "graded", "readings")
    columns = ("method", *figures, "tokens", "of budget", "above", "stale readings")
    note = (
        "The score is the mean grade: 1 complete, 0.5 a substantial part, 0 unknown or wrong, -1 misleading. The "
        "interval comes from resampled sessions. Where a view was read or graded more than once, all grades are kept: "
        "the score is their mean, and the range goes from the worst to the best grade of each answer. Rows that rest "
        "on some of the questions come last and have no place. Tokens are the mean of the views, with the system "
        "prompt; above are views more than 2 % over their size. A stale reading is of an older view and does not "
        f"count. {_describe_people(result)}."
    )
    return Table(f"Reading test at {_format_place(size, rounds)}", columns, rows, note)


def build_size_table(result: ReadingScores) -> Table:
    """Returns the score of each method at each size, and after several rounds."""
    places = sorted({(score.rounds, score.size) for score in result.scores})
    asked = {place: _count_questions(s for s in result.scores if (s.rounds, s.size) == place) for place in places}
    rows = [
        (name, *(_describe_share((s for s in own if (s.rounds, s.size) == place), asked[place]) for place in places))
        for name, own in _group(result.scores).items()
        if _get_grades(own)
    ]
    ranks = {name: number for number, name in enumerate(_rank_methods(result))}
    rows.sort(key=lambda row: ranks.get(row[0], len(ranks)))
    columns = ("method", *(_format_place(size, rounds) for rounds, size in places))
    return Table("Reading test by size and rounds", columns, rows if len(places) > 1 else [])


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
    scores = [s for s in result.scores if (s.size, s.rounds) == (size, rounds)]
    keys = [key for key in order if any(get_key(s) == key for s in scores)]
    keys += sorted({get_key(score) for score in scores} - set(keys))
    asked = {key: _count_questions(s for s in scores if get_key(s) == key) for key in keys}
    rows = [
        (name, *(_describe_share((s for s in own if get_key(s) == key), asked[key], digits=2) for key in keys))
        for name, own in _rank_methods(result).items()
    ]
    note = f"Questions: {', '.join(f'{key} {count}' for key, count in asked.items())}."
    return Table(f"By {title}, at {_format_place(size, rounds)}", ("method", *keys), rows, note)


def _rank_methods(result: ReadingScores) -> dict[str, list[AnswerScore]]:
    """Returns the scores at the main size by method, best first. Methods that lack some of the answers come last."""
    size, rounds = _get_main_place(result)
    total = _count_main_questions(result)
    found = _group(s for s in result.scores if (s.size, s.rounds) == (size, rounds))
    graded = {name: own for name, own in found.items() if _get_grades(own)}

    def rank_method(item: tuple[str, list[AnswerScore]]) -> tuple[bool, float]:
        grades = _get_grades(item[1])
        return len(grades) < total, -_average(grades)

    return dict(sorted(graded.items(), key=rank_method))


def _count_main_questions(result: ReadingScores) -> int:
    """Returns how many questions there are, or with generations how many are asked after the last."""
    place = _get_main_place(result)
    return _count_questions(s for s in result.scores if not result.generations or (s.size, s.rounds) == place)


def _count_questions(scores: Iterable[AnswerScore]) -> int:
    return len({(score.session, score.question) for score in scores})


def _describe_count(count: int, total: int) -> str:
    return str(count) if count == total else f"{count} of {total}"


def _describe_share(scores: Iterable[AnswerScore], total: int, *, digits: int = 3) -> str:
    """Returns the mean grade, with the number of answers where some are missing."""
    grades = _get_grades(scores)
    if not grades:
        return _BLANK
    return f"{_average(grades):.{digits}f}" + f" ({_describe_count(len(grades), total)})" * (len(grades) < total)


def _describe_range(scores: Sequence[AnswerScore]) -> str:
    """Returns the means of the worst and the best grades, if any answer has more than one."""
    found = [score.grades for score in scores if score.grades]
    if all(len(grades) == 1 for grades in found):
        return _BLANK
    return f"{_average([min(grades) for grades in found]):.2f} to {_average([max(grades) for grades in found]):.2f}"


def _describe_readings(scores: Sequence[AnswerScore]) -> str:
    counts = sorted(score.readings for score in scores if score.readings)
    return f"{counts[0]}" + f" to {counts[-1]}" * (counts[0] < counts[-1])


def _get_main_place(result: ReadingScores) -> tuple[float, int]:
    """Returns the size and the rounds of the headline: 10 % once, if it was measured, or after the last generation."""
    pick = max if result.generations else min
    rounds = pick((view.rounds for view in result.views), default=1)
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


def _build_figure(scores: Sequence[AnswerScore]) -> ResampleFigure:
    """Returns the function that computes the mean grade of a resample of the sessions, if it has any."""
    grades: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.grade is not None:
            grades[score.session].append(score.grade)

    def compute(resample: Resample) -> float | None:
        drawn = [(times, grades[name]) for name, times in resample.items() if name in grades]
        count = sum(times * len(own) for times, own in drawn)
        return sum(times * sum(own) for times, own in drawn) / count if count else None

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
