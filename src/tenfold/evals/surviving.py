"""An assertion for tests: does what an agent needs survive a compaction of one's own sessions?

It uses the measures of the yardstick: typed probes taken from the session before it is compacted, texts of the user's
own, the gates of validity, and identifiers that the session never held. Nothing here needs pytest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.evals.cases import ChatMessage, conversations, role_of, tokens_of
from tenfold.evals.false_facts import false_facts
from tenfold.evals.losses import FALSE, MUST_HOLD, UNABLE, Loss, Lost, Survived, told_of
from tenfold.evals.methods import BASELINES, Compacted, Method, Preset, Unable
from tenfold.evals.probes import KINDS, Kind, Probe, Shown, judge, plant, probes_of
from tenfold.evals.probes.anchored import holds
from tenfold.evals.probes.kinds import content_words, terms
from tenfold.evals.rounds import grown
from tenfold.evals.validity import GATES, TOLERANCE, Broken, Gate, broken
from tenfold.policies import POLICIES
from tenfold.shown import told

Compactor = Callable[[list[ChatMessage]], Sequence[ChatMessage]]
"""The function under test: it returns the messages that an agent's model is sent in place of the given ones."""
AT_LEAST: Mapping[Kind, float] = {"constraint": 1.0, "correction": 1.0}
"""What has to be kept by default: every rule and every correction of the user."""
TENTH = 0.1
_EDGES = ".,;:!?()[]{}\"'`"


class _Wanted(Struct, frozen=True):
    """What the caller asked for, checked."""

    budget: float
    rounds: int
    at_least: dict[Kind, float]
    must_hold: tuple[tuple[str, str], ...]
    gates: frozenset[Gate]

    def share(self, kind: str) -> float:
        """Returns the share of a kind that has to be kept, which is 1 for the caller's own texts."""
        return next((share for own, share in self.at_least.items() if own == kind), 1.0)


def assert_survives(  # noqa: PLR0913 - what is tested and on what; the rest by keyword
    compactor: Compactor | str,
    session: str | Path | Sequence[ChatMessage],
    *,
    budget: float = TENTH,
    rounds: int = 1,
    at_least: Mapping[Kind, float] = AT_LEAST,
    must_hold: Sequence[str | tuple[str, str]] = (),
    gates: Sequence[Gate] = GATES,
) -> tuple[Survived, ...]:
    """Compacts a session and raises `SurvivalError`, an AssertionError that lists the losses, unless enough survives.

    `compactor` is a function from OpenAI Chat messages to such messages, or the name of one of Tenfold's policies.
    `session` is the path of a session file in any format that Tenfold reads, each session of which is tested, or a list
    of OpenAI Chat messages. `budget` is in tokens, or up to 1 a share of the session's tokens. With `rounds` the
    session grows in as many stretches and is compacted after each.

    `at_least` maps kinds of probes to the share of each that the result has to answer; with "planted", three side rules
    are first added to the session. `must_hold` are texts of your own: their words have to stand close together, and
    near half of the words of an anchor if one is given as (text, anchor). `gates` are the gates of validity that must
    hold. Nothing may be invented. Returns what was found, one `SurvivalResult` for each session. Raises `UsageError` if
    nothing is asked, because such a test could never fail.
    """
    __tracebackhide__ = True
    requirements = _wanted(budget, rounds, at_least, must_hold, gates)
    method = _method(compactor)
    found = [_judged(method, name, messages, requirements) for name, messages in _sessions(session)]
    if not any(each.kept or each.losses for each in found):
        kinds = ", ".join(requirements.at_least)
        raise UsageError(
            f"the session holds nothing of the kinds {kinds}: this test could never fail for what is lost; "
            f"name others in at_least ({', '.join(KINDS)}), or texts of it in must_hold"
        )
    lost = [told_of(each, requirements.at_least) for each in found if each.losses]  # type: ignore[arg-type]
    if lost:
        raise Lost("\n\n".join(lost))
    return tuple(found)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _wanted(
    budget: float,
    rounds: int,
    at_least: Mapping[Kind, float],
    must_hold: Sequence[str | tuple[str, str]],
    gates: Sequence[Gate],
) -> _Wanted:
    if budget <= 0:
        raise UsageError(f"a budget of {budget:g}: it is a number of tokens, or a share of the session's up to 1")
    for kind, share in at_least.items():
        if kind not in KINDS:
            raise UsageError(f"no probe is of the kind {kind!r}; there are {', '.join(KINDS)}")
        if not 0 < share <= 1:
            raise UsageError(f"at_least of {kind!r} is {share:g}: a share is above 0 and at most 1")
    for gate in gates:
        if gate not in GATES:
            raise UsageError(f"no gate is called {gate!r}; there are {', '.join(GATES)}")
    if isinstance(must_hold, str):
        raise UsageError("must_hold is a list of texts, not one text")
    texts = tuple((text, "") if isinstance(text, str) else text for text in must_hold)
    if not all(text.strip() for text, _ in texts):
        raise UsageError("must_hold has an empty text: it is always held")
    return _Wanted(budget, rounds, dict(at_least), texts, frozenset(gates))


def _sessions(session: str | Path | Sequence[ChatMessage]) -> list[tuple[str, tuple[ChatMessage, ...]]]:
    if isinstance(session, str | Path):
        return [(found.name, found.messages) for found in conversations(Path(session))]
    messages = tuple(session)
    if not messages:
        raise UsageError("the session has no messages")
    return [("the session", _chat(messages, "session"))]


def _own(source: Sequence[ChatMessage], texts: Sequence[tuple[str, str]]) -> list[Probe]:
    """Returns the caller's texts as probes, each at the first message that holds it."""
    whole, each = Shown(source), [Shown([message]) for message in source] if texts else []
    found = []
    for text, anchor in texts:
        answer, near = terms(_words(text)), terms(content_words(anchor))
        if not holds(whole, answer, near):
            raise UsageError(
                f"must_hold: the session itself does not hold {text!r}{f' near {anchor!r}' if anchor else ''}; "
                "its words have to stand in it within 600 characters"
            )
        at = next((i for i, shown in enumerate(each) if holds(shown, answer, near)), -1)
        found.append(Probe("planted", at, text, answer, near))
    return found


def _words(text: str) -> list[str]:
    """Returns the words of a text, with names and numbers whole.

    Only words that carry meaning are returned, if there are any.
    """
    every = [word for raw in text.lower().split() if (word := raw.strip(_EDGES))]
    return [word for word in every if content_words(word)] or every


# -- what is tested ----------------------------------------------------------------------------------------------------


class _Given:
    """A caller's function as a method."""

    def __init__(self, run: Compactor) -> None:
        self.name = getattr(run, "__qualname__", type(run).__name__)
        self._run = run

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        """See `Method.compact`.

        The function may change its list, but not the messages in it. Its exceptions are not caught.
        """
        del budget
        start = time.perf_counter()
        messages = tuple(self._run(list(past)))
        seconds = time.perf_counter() - start
        return Compacted(_chat(messages, f"what {self.name} returned"), tokens_of(messages), seconds)


class _Watched:
    """Wraps a method and records whether each result fits, and whether the messages it was given are unchanged."""

    def __init__(self, method: Method) -> None:
        self.name, self.method = method.name, method
        self.over: list[tuple[int, int, str]] = []
        self.changed = False
        self._rounds = 0

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        """See `Method.compact`. Records (round, tokens, the method's own note) of a result above the budget."""
        before = [_raw(message) for message in past]
        result = self.method.compact(past, budget=budget)
        self.changed |= [_raw(message) for message in past] != before
        self._rounds += 1
        if result.tokens > budget * TOLERANCE:
            self.over.append((self._rounds, result.tokens, result.note))
        return result


def _method(compactor: Compactor | str) -> Method:
    if not isinstance(compactor, str):
        return _Given(compactor)
    known: dict[str, Method] = {name: Preset(name) for name in POLICIES} | dict(BASELINES)
    if compactor not in known:
        raise UsageError(f"no compactor is called {compactor!r}; there are {', '.join(known)}, or give a function")
    return known[compactor]


def _chat(messages: tuple[object, ...], what: str) -> tuple[ChatMessage, ...]:
    """Returns the messages, or raises `UsageError` if they are not chat messages."""
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise UsageError(
                f"{what}: item {at} is no OpenAI Chat message (a dict with a role) but {type(message).__name__}; "
                "convert it, for instance by langchain_core.messages.convert_to_openai_messages"
            )
    return messages  # type: ignore[return-value]


def _raw(message: ChatMessage) -> bytes:
    return msgspec.json.encode(message)


# -- judging -----------------------------------------------------------------------------------------------------------


def _judged(method: Method, name: str, messages: tuple[ChatMessage, ...], wanted: _Wanted) -> Survived:
    planted: tuple[Probe, ...] = ()
    if "planted" in wanted.at_least:
        planted_past = plant(messages, name)
        messages, planted = planted_past.messages, planted_past.probes
    before = tokens_of(messages)
    budget = int(before * wanted.budget) if wanted.budget <= 1 else int(wanted.budget)
    asked = _asked(messages, planted, wanted)
    watched = _Watched(method)
    try:
        result = grown(watched, messages, budget=budget, rounds=wanted.rounds)
    except Unable as exc:
        why = Loss(UNABLE, f"{method.name} could not: {exc}")
        return Survived(name, (len(messages), 0), (before, 0), budget, wanted.rounds, {}, (why,))
    losses = [*_valid(watched, messages, result, wanted, budget), *_invented(messages, result)]
    view, kept = Shown(result.messages), {}
    for kind, probes in asked.items():
        verdicts = [(probe, judge(probe, view)) for probe in probes]
        kept[kind] = (sum(v == "present" for _, v in verdicts), len(probes))
        if kept[kind][0] < wanted.share(kind) * len(probes):
            losses += [_lost(kind, p, v, messages) for p, v in verdicts if v != "present"]
    sizes = (len(messages), len(result.messages)), (before, result.tokens)
    return Survived(name, *sizes, budget, wanted.rounds, kept, tuple(losses))


def _asked(messages: Sequence[ChatMessage], planted: Sequence[Probe], wanted: _Wanted) -> dict[str, list[Probe]]:
    """Returns the probes by kind, only for kinds that the session has any of."""
    planted_texts = {probe.text for probe in planted}
    every = [*(p for p in probes_of(messages) if p.text not in planted_texts), *planted]
    found: dict[str, list[Probe]] = {kind: [p for p in every if p.kind == kind] for kind in wanted.at_least}
    found[MUST_HOLD] = _own(messages, wanted.must_hold)
    return {kind: probes for kind, probes in found.items() if probes}


def _lost(kind: str, probe: Probe, verdict: str, messages: Sequence[ChatMessage]) -> Loss:
    """Describes a miss. The text is redacted first, since a secret that is cut in two is no longer recognised."""
    where = f"message {probe.at} ({role_of(messages[probe.at])})" if probe.at >= 0 else "the session"
    why = "superseded, yet still said" if verdict == "stale" else "lost"
    return Loss(kind, f"{why}, {where}: {told(probe.text)}")


def _valid(
    watched: _Watched, messages: Sequence[ChatMessage], made: Compacted, wanted: _Wanted, budget: int
) -> Iterator[Loss]:
    """Checks the gates of the result, the size after every round, the input, and a second run."""
    found = broken(messages, made.messages)
    for number, tokens, note in watched.over:
        after = f" after compaction {number}" if wanted.rounds > 1 else ""
        over = f"{tokens:,} tokens{after} where {budget:,} were allowed: {tokens - budget:,} too many"
        found.append(Broken("over budget", -1, f"{over}; {note}" if note else over))
    if watched.changed:
        found.append(Broken("changed input", -1, "the messages that were passed in were changed"))
    if "two runs differ" in wanted.gates:
        again = grown(watched.method, messages, budget=budget, rounds=wanted.rounds)
        if [_raw(m) for m in made.messages] != [_raw(m) for m in again.messages]:
            counts = f"{len(made.messages)} and {len(again.messages)} messages"
            found.append(Broken("two runs differ", -1, f"the same session, compacted again: {counts}, not alike"))
    for each in found:
        if each.gate in wanted.gates:
            yield Loss(each.gate, f"message {each.at} of the result: {each.reason}" if each.at >= 0 else each.reason)


def _invented(messages: Sequence[ChatMessage], made: Compacted) -> Iterator[Loss]:
    for fact in false_facts(messages, made.messages):
        yield Loss(FALSE, f"the {fact.kind} {told(fact.text)}, message {fact.at} of the result")
