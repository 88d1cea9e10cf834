"""Recall at retained tokens over generations: what is left of a session's answers as it is compacted again and again.

A session grows in equal stretches. After each, a method compacts its own last view and what is new; that is one
generation. Then questions are asked whose answers have been said by then. An answer counts if its texts are in the view
word for word, or, in the lookup arm, in what one search of the session finds. The uncompacted session is the ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, product

from msgspec import Struct
from msgspec.structs import replace

from tenfold import __version__
from tenfold.testing.chats import count_total_tokens, get_counter
from tenfold.testing.identifier_finder import find_identifiers
from tenfold.testing.methods import Method, UnableError, split_past
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.asked_sessions import AskedQuestion, AskedSession, join_text, spread_evenly
from tenfold_yardstick.cases import COMPACTION, Case
from tenfold_yardstick.future_recall import build_search, is_over_budget
from tenfold_yardstick.gates import find_failures_within, find_refusal
from tenfold_yardstick.methods import has_search
from tenfold_yardstick.reading.question_files import ReadingCase
from tenfold_yardstick.tables import Table, find_most_frequent

GENERATIONS, QUESTIONS, BUDGET = 10, 15, 8_000
"""How often a session is compacted, how many questions are asked about it at most, and to how many tokens."""
_BLANK = "-"


class GenerationScore(Struct, frozen=True):
    """One method on one session after one generation.

    `asked` counts the questions whose answers have been said by then, in `said` tokens. `shown` counts those that the
    view of `tokens` tokens answers, `within` those that it or one search answers (None: the method has no search).
    `ages` maps how many compactions an answer went through to (shown, asked). A view above the budget is `over`, and
    one that fails a gate for which a provider refuses it `refused`: neither answers anything. `unable` is the reason if
    the method gave no view in this generation or in one before it.
    """

    session: str
    method: str
    budget: int
    generation: int
    asked: int
    said: int
    shown: int = 0
    within: int | None = None
    tokens: int = 0
    ages: dict[str, tuple[int, int]] = {}
    over: bool = False
    refused: str = ""
    unable: str = ""


class Generations(Struct, frozen=True):
    """The result of `tenfold eval generations`. `literal` counts the questions that code can check, of `posed`."""

    version: str
    counter: str
    generations: int
    posed: int
    literal: int
    scores: tuple[GenerationScore, ...]


class _SaidSoFar(Struct, frozen=True):
    """A session after a stretch, with the questions that can be asked and those that one search answers."""

    messages: tuple[ChatMessage, ...]
    stretch: tuple[ChatMessage, ...]
    tokens: int
    questions: tuple[AskedQuestion, ...]
    found: frozenset[AskedQuestion]


def build_asked_session(case: ReadingCase) -> AskedSession:
    """Builds a session with questions from a file of the reading test, whose gold answers are sentences.

    A view must hold the whole gold answer if the past holds it word for word, else each identifier of the answer.
    """
    text = join_text(case.past)
    questions = tuple(
        AskedQuestion(one.id, one.ask, one.gold, _list_expected(one.gold, text), tuple(one.evidence), one.category)
        for one in case.questions
    )
    return AskedSession(case.name, case.past, questions)


def _list_expected(answer: str, text: str) -> tuple[str, ...]:
    if answer.casefold() in text:
        return (answer,)
    return tuple(dict.fromkeys(each.text for each in find_identifiers(answer)))


def measure_generations(
    sessions: Sequence[AskedSession],
    methods: Sequence[Method],
    *,
    budgets: Sequence[int] = (BUDGET,),
    generations: int = GENERATIONS,
    questions: int = QUESTIONS,
    on_progress: Callable[[str], object] = lambda _: None,
) -> Generations:
    """Measures every method on every session. `on_progress` is told what was measured after each."""
    scores: list[GenerationScore] = []
    literal = 0
    for session in sessions:
        said = _split_session(session, generations, questions, has_lookups=any(map(has_search, methods)))
        literal += len(said[-1].questions) if said else 0
        for budget, method in product(budgets, methods):
            if said and said[-1].questions:
                scores += _run_generations(session.name, said, method, budget)
            on_progress(f"{session.name}, {method.name}")
    posed = sum(len(session.questions) for session in sessions)
    return Generations(__version__, get_counter().name, generations, posed, literal, tuple(scores))


def _split_session(session: AskedSession, generations: int, count: int, *, has_lookups: bool) -> list[_SaidSoFar]:
    stretches = split_past(session.messages, generations)
    ends = list(accumulate(map(len, stretches)))
    texts = [join_text(session.messages[:end]) for end in ends]
    checkable = [one for one in session.questions if texts and one.is_in(texts[-1])]
    first_said = {one: next(at for at, text in enumerate(texts) if one.is_in(text)) for one in checkable}
    chosen = spread_evenly(sorted(checkable, key=lambda one: (first_said[one], one.evidence[:1])), count)
    out: list[_SaidSoFar] = []
    for at, (stretch, end) in enumerate(zip(stretches, ends, strict=True)):
        past = session.messages[:end]
        asked = tuple(one for one in chosen if first_said[one] <= at)
        found: list[AskedQuestion] = []
        if has_lookups and asked:
            search = build_search(Case(session.name, end, COMPACTION, past))
            found = [one for one in asked if one.is_in("\n".join(search(one.prompt)).casefold())]
        out.append(_SaidSoFar(past, stretch, count_total_tokens(past), asked, frozenset(found)))
    return out


def _run_generations(name: str, said: Sequence[_SaidSoFar], method: Method, budget: int) -> list[GenerationScore]:
    """Compacts generation by generation, each time the last view and what is new."""
    born = {one: at for at, each in reversed(list(enumerate(said, 1))) for one in each.questions}
    view: tuple[ChatMessage, ...] = ()
    unable = ""
    out: list[GenerationScore] = []
    for generation, each in enumerate(said, 1):
        within = 0 if has_search(method) else None
        score = GenerationScore(name, method.name, budget, generation, len(each.questions), each.tokens, within=within)
        try:
            if not unable:
                result = method.compact((*view, *each.stretch), budget=budget)
        except UnableError as exc:
            unable = str(exc)
        if unable:
            out.append(_fill_score(score, born, each, frozenset(), unable=unable))
            continue
        view = result.messages
        over = is_over_budget(method.name, result.tokens, budget)
        refused = find_refusal(find_failures_within(each.messages, view, budget))
        text = "" if over or refused else join_text(view)
        shown = frozenset(one for one in each.questions if one.is_in(text))
        filled = _fill_score(score, born, each, shown, tokens=result.tokens, over=over, refused=refused)
        out.append(filled)
    return out


def _fill_score(
    score: GenerationScore,
    born: dict[AskedQuestion, int],
    said: _SaidSoFar,
    shown: frozenset[AskedQuestion],
    **rest: object,
) -> GenerationScore:
    ages: dict[str, tuple[int, int]] = {}
    for one in said.questions:
        age = str(score.generation - born[one] + 1)
        have, asked = ages.get(age, (0, 0))
        ages[age] = (have + (one in shown), asked + 1)
    is_lost = any(rest.get(name) for name in ("over", "refused", "unable"))
    within = None if score.within is None else 0 if is_lost else len(shown | said.found)
    return replace(score, shown=len(shown), within=within, ages=ages, **rest)


# -- the tables --------------------------------------------------------------------------------------------------------


def build_tables(result: Generations) -> list[Table]:
    """Returns, for each budget, recall by generation in the view and with a lookup, retained tokens, recall by age."""
    tables: list[Table] = []
    for budget in sorted({one.budget for one in result.scores}):
        own = _group([one for one in result.scores if one.budget == budget])
        able = {name: found for name, found in own.items() if not all(one.unable for one in found)}
        size = f"compacted to {budget / 1_000:g}k tokens"
        tables += [
            _build_recall_table(result, able, size),
            _build_lookup_table(result, able, size),
            _build_token_table(result, able, size),
            _build_age_table(able, size),
        ]
    return [table for table in (*tables, _build_unable_table(result)) if table.rows]


def compute_recall(scores: Sequence[GenerationScore], *, has_lookup: bool = False) -> float | None:
    """Returns the share of the questions that are answered, of those asked, or None if none was."""
    asked = sum(one.asked for one in scores)
    found = sum((one.within or 0) if has_lookup else one.shown for one in scores)
    return found / asked if asked else None


def average_tokens(scores: Sequence[GenerationScore]) -> float | None:
    """Returns the mean size of the views, or None if there is none."""
    sizes = [one.tokens for one in scores if not one.unable]
    return sum(sizes) / len(sizes) if sizes else None


def _build_recall_table(result: Generations, scores: dict[str, list[GenerationScore]], size: str) -> Table:
    numbers = list_generations(result)
    rows: list[tuple[str, ...]] = []
    for name, own in scores.items():
        last = _select(own, numbers[-1])
        lost = sum(bool(one.over or one.refused or one.unable) for one in own)
        cells = (_format_share(compute_recall(_select(own, number))) for number in numbers)
        rows.append((name, *cells, _format_tokens(average_tokens(last)), f"{lost}/{len(own)}"))
    rows.sort(key=lambda row: row[len(numbers)], reverse=True)
    first = next(iter(scores.values()), [])
    asked = ", ".join(f"{number} {sum(one.asked for one in _select(first, number))}" for number in numbers)
    note = (
        f"The share of the questions that the view answers after each generation, of those whose answers have been "
        f"said by then: {asked}. Of {result.posed} questions about {len({one.session for one in first})} sessions, "
        f"{result.literal} are asked: those that code can check, spread evenly. `full-past` is the ceiling, the "
        "session as it is. Tokens are those retained in the end. A view above its budget, or that a provider refuses, "
        "answers nothing."
    )
    return Table(f"Recall over generations, {size}", ("method", *map(str, numbers), "tokens", "not sent"), rows, note)


def _build_lookup_table(result: Generations, scores: dict[str, list[GenerationScore]], size: str) -> Table:
    numbers = list_generations(result)
    rows: list[tuple[str, ...]] = [
        (name, *(_format_share(compute_recall(_select(own, n), has_lookup=True)) for n in numbers))
        for name, own in scores.items()
        if any(one.within is not None for one in own)
    ]
    note = "The same with one search of the session for the words of the question. Only Tenfold's methods have one."
    return Table(f"Recall over generations with one lookup, {size}", ("method", *map(str, numbers)), rows, note)


def _build_token_table(result: Generations, scores: dict[str, list[GenerationScore]], size: str) -> Table:
    numbers = list_generations(result)
    rows: list[tuple[str, ...]] = [
        (name, *(_format_tokens(average_tokens(_select(own, number))) for number in numbers))
        for name, own in scores.items()
    ]
    note = "The mean size of the views. `full-past` shows how much has been said."
    return Table(f"Retained tokens over generations, {size}", ("method", *map(str, numbers)), rows, note)


def _build_age_table(scores: dict[str, list[GenerationScore]], size: str) -> Table:
    totals: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in scores}
    for name, own in scores.items():
        for age, (have, asked) in ((int(age), pair) for one in own for age, pair in one.ages.items()):
            was, all_ = totals[name].get(age, (0, 0))
            totals[name][age] = (was + have, all_ + asked)
    ages = sorted({age for found in totals.values() for age in found})
    rows: list[tuple[str, ...]] = [
        (name, *(_format_share(found[age][0] / found[age][1]) if age in found else _BLANK for age in ages))
        for name, found in totals.items()
    ]
    note = "Over all generations, by how many compactions the answer has gone through since it was said first."
    return Table(f"Recall by compactions gone through, {size}", ("method", *map(str, ages)), rows, note)


def _build_unable_table(result: Generations) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, own in _group(result.scores).items():
        reasons = [one.unable for one in own if one.unable]
        if reasons:
            rows.append((name, f"{len(reasons)}/{len(own)}", find_most_frequent(reasons)))
    return Table("Could not go through the generations", ("method", "of its views", "the reason most often"), rows)


def list_generations(result: Generations) -> list[int]:
    """Returns the generations that were measured. A session with few messages has fewer than others."""
    return sorted({one.generation for one in result.scores})


def _select(scores: Sequence[GenerationScore], generation: int) -> list[GenerationScore]:
    return [one for one in scores if one.generation == generation]


def _group(scores: Sequence[GenerationScore]) -> dict[str, list[GenerationScore]]:
    out: dict[str, list[GenerationScore]] = {}
    for score in scores:
        out.setdefault(score.method, []).append(score)
    return out


def _format_share(value: float | None) -> str:
    return _BLANK if value is None else f"{value:.2f}"


def _format_tokens(value: float | None) -> str:
    return _BLANK if value is None else f"{value:,.0f}"
