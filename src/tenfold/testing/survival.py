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

from tenfold.config.policies import POLICIES
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import UsageError
from tenfold.testing.chats import count_total_tokens, get_role, read_chats
from tenfold.testing.false_facts import find_false_facts
from tenfold.testing.losses import (
    FALSE_FACTS,
    MUST_HOLD,
    MUST_NOT_HOLD,
    UNABLE,
    Loss,
    SurvivalError,
    SurvivalResult,
    format_losses,
)
from tenfold.testing.methods import BASELINES, Method, MethodResult, Preset, UnableError, compact_in_rounds
from tenfold.testing.probes import (
    PROBE_KINDS,
    IndexedView,
    Probe,
    ProbeKind,
    Revocation,
    collect_probes,
    find_revocations,
    is_said_so,
    judge,
    plant_rules,
)
from tenfold.testing.probes.kinds import ChatMessage, build_terms, find_content_words
from tenfold.testing.probes.presence import has_answer
from tenfold.testing.validity import GATES, TOLERANCE, Gate, GateFailure, find_failures

Compactor = Callable[[list[ChatMessage]], Sequence[ChatMessage]]
"""The function under test: it returns the messages that an agent's model is sent in place of the given ones."""
DEFAULT_SHARES: Mapping[ProbeKind, float] = {"constraint": 1.0, "correction": 1.0}
"""What has to be kept by default: every rule and every correction of the user."""
DEFAULT_BUDGET = 0.1
_RULE_KINDS: tuple[ProbeKind, ...] = ("constraint", "correction")
_EDGE_CHARACTERS = ".,;:!?()[]{}\"'`"


class _Requirements(Struct, frozen=True):
    """What the caller asked for, checked."""

    budget: float
    rounds: int
    at_least: dict[ProbeKind, float]
    must_hold: tuple[tuple[str, str], ...]
    must_not_hold: tuple[tuple[str, str], ...]
    gates: frozenset[Gate]

    def get_share(self, kind: str) -> float:
        """Returns the share of a kind that has to be kept, which is 1 for the caller's own texts."""
        return next((share for own, share in self.at_least.items() if own == kind), 1.0)


def assert_survives(  # noqa: PLR0913 - what is tested and on what; the rest by keyword
    compactor: Compactor | str,
    session: str | Path | Sequence[ChatMessage],
    *,
    budget: float = DEFAULT_BUDGET,
    rounds: int = 1,
    at_least: Mapping[ProbeKind, float] = DEFAULT_SHARES,
    must_hold: Sequence[str | tuple[str, str]] = (),
    must_not_hold: Sequence[str | tuple[str, str]] = (),
    gates: Sequence[Gate] = GATES,
) -> tuple[SurvivalResult, ...]:
    """Compacts a session and raises `SurvivalError`, an AssertionError that lists the losses, unless enough survives.

    `compactor` is a function from OpenAI Chat messages to such messages, or the name of one of Tenfold's policies.
    `session` is the path of a session file in any format that Tenfold reads, each session of which is tested, or a list
    of OpenAI Chat messages. `budget` is in tokens, or up to 1 a share of the session's tokens. With `rounds` the
    session grows in as many stretches and is compacted after each.

    `at_least` maps kinds of probes to the share of each that the result has to answer; with "planted", three side rules
    are first added to the session. `must_hold` are texts of your own: their words have to stand close together, and
    near half of the words of an anchor if one is given as (text, anchor). A sentence that forbids does not hold one
    that allows, nor the other way round. `must_not_hold` are texts that the result may not say any more. A rule
    that the user revoked need not be kept; shown without the revocation it is a loss. `gates` are the gates of
    validity that must hold. Nothing may be invented. Returns what was found, one `SurvivalResult` for each session.
    Raises `UsageError` if
    nothing is asked, because such a test could never fail.
    """
    __tracebackhide__ = True
    requirements = _check_requirements(budget, rounds, at_least, gates)
    texts = {
        "must_hold": _check_texts("must_hold", must_hold),
        "must_not_hold": _check_texts("must_not_hold", must_not_hold),
    }
    requirements = msgspec.structs.replace(requirements, **texts)
    method = _build_method(compactor)
    found = [_judge_session(method, name, messages, requirements) for name, messages in _read_sessions(session)]
    if not any(each.kept or each.losses for each in found) and not must_not_hold:
        kinds = ", ".join(requirements.at_least)
        raise UsageError(
            f"the session holds nothing of the kinds {kinds}: this test could never fail for what is lost; "
            f"name others in at_least ({', '.join(PROBE_KINDS)}), or texts of it in must_hold"
        )
    lost = [format_losses(each, requirements.at_least) for each in found if each.losses]  # type: ignore[arg-type]
    if lost:
        raise SurvivalError("\n\n".join(lost))
    return tuple(found)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _check_requirements(
    budget: float, rounds: int, at_least: Mapping[ProbeKind, float], gates: Sequence[Gate]
) -> _Requirements:
    if budget <= 0:
        raise UsageError(f"a budget of {budget:g}: it is a number of tokens, or a share of the session's up to 1")
    for kind, share in at_least.items():
        if kind not in PROBE_KINDS:
            raise UsageError(f"no probe is of the kind {kind!r}; there are {', '.join(PROBE_KINDS)}")
        if not 0 < share <= 1:
            raise UsageError(f"at_least of {kind!r} is {share:g}: a share is above 0 and at most 1")
    for gate in gates:
        if gate not in GATES:
            raise UsageError(f"no gate is called {gate!r}; there are {', '.join(GATES)}")
    return _Requirements(budget, rounds, dict(at_least), (), (), frozenset(gates))


def _check_texts(name: str, given: Sequence[str | tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns the caller's texts as (text, anchor)."""
    if isinstance(given, str):
        raise UsageError(f"{name} is a list of texts, not one text")
    texts = tuple((text, "") if isinstance(text, str) else text for text in given)
    if not all(text.strip() for text, _ in texts):
        raise UsageError(f"{name} has an empty text: it is always held")
    return texts


def _read_sessions(session: str | Path | Sequence[ChatMessage]) -> list[tuple[str, tuple[ChatMessage, ...]]]:
    if isinstance(session, str | Path):
        return [(found.name, found.messages) for found in read_chats(Path(session))]
    messages = tuple(session)
    if not messages:
        raise UsageError("the session has no messages")
    return [("the session", _check_chat(messages, "session"))]


def _build_own_probes(source: Sequence[ChatMessage], texts: Sequence[tuple[str, str]]) -> list[Probe]:
    """Returns the caller's texts as probes, each at the first message that holds it."""
    whole, each = IndexedView(source), [IndexedView([message]) for message in source] if texts else []
    found = []
    for text, anchor in texts:
        answer, near = build_terms(_split_words(text)), build_terms(find_content_words(anchor))
        if not has_answer(whole, answer, near):
            raise UsageError(
                f"must_hold: the session itself does not hold {text!r}{f' near {anchor!r}' if anchor else ''}; "
                "its words have to stand in it within 600 characters"
            )
        at = next((i for i, shown in enumerate(each) if has_answer(shown, answer, near)), -1)
        found.append(Probe("planted", at, text, answer, near))
    return found


def _split_words(text: str) -> list[str]:
    """Returns the words of a text, with names and numbers whole.

    Only words that carry meaning are returned, if there are any.
    """
    every = [word for raw in text.lower().split() if (word := raw.strip(_EDGE_CHARACTERS))]
    return [word for word in every if find_content_words(word)] or every


# -- what is tested ----------------------------------------------------------------------------------------------------


class _FunctionMethod:
    """A caller's function as a method."""

    def __init__(self, function: Compactor) -> None:
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self._function = function

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`.

        The function may change its list, but not the messages in it. Its exceptions are not caught.
        """
        del budget
        start = time.perf_counter()
        messages = tuple(self._function(list(past)))
        seconds = time.perf_counter() - start
        return MethodResult(_check_chat(messages, f"what {self.name} returned"), count_total_tokens(messages), seconds)


class _WatchedMethod:
    """Wraps a method and records whether each result fits, and whether the messages it was given are unchanged."""

    def __init__(self, method: Method) -> None:
        self.name, self.method = method.name, method
        self.oversized_results: list[tuple[int, int, str]] = []
        self.has_changed_input = False
        self._rounds = 0

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`. Records (round, tokens, the method's own note) of a result above the budget."""
        before = [msgspec.json.encode(message) for message in past]
        result = self.method.compact(past, budget=budget)
        self.has_changed_input |= [msgspec.json.encode(message) for message in past] != before
        self._rounds += 1
        if result.tokens > budget * TOLERANCE:
            self.oversized_results.append((self._rounds, result.tokens, result.note))
        return result


def _build_method(compactor: Compactor | str) -> Method:
    if not isinstance(compactor, str):
        return _FunctionMethod(compactor)
    known: dict[str, Method] = {name: Preset(name) for name in POLICIES} | dict(BASELINES)
    if compactor not in known:
        raise UsageError(f"no compactor is called {compactor!r}; there are {', '.join(known)}, or give a function")
    return known[compactor]


def _check_chat(messages: tuple[object, ...], subject: str) -> tuple[ChatMessage, ...]:
    """Returns the messages, or raises `UsageError` if they are not chat messages."""
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise UsageError(
                f"{subject}: item {at} is no OpenAI Chat message (a dict with a role) but {type(message).__name__}; "
                "convert it, for instance by langchain_core.messages.convert_to_openai_messages"
            )
    return messages  # type: ignore[return-value]


# -- judging -----------------------------------------------------------------------------------------------------------


def _judge_session(
    method: Method, name: str, messages: tuple[ChatMessage, ...], requirements: _Requirements
) -> SurvivalResult:
    planted: tuple[Probe, ...] = ()
    if "planted" in requirements.at_least:
        planted_past = plant_rules(messages, name)
        messages, planted = planted_past.messages, planted_past.probes
    before = count_total_tokens(messages)
    budget = int(before * requirements.budget) if requirements.budget <= 1 else int(requirements.budget)
    asked, revoked = _collect_probes(messages, planted, requirements)
    watched = _WatchedMethod(method)
    try:
        result = compact_in_rounds(watched, messages, budget=budget, rounds=requirements.rounds)
    except UnableError as exc:
        why = Loss(UNABLE, f"{method.name} could not: {exc}")
        return SurvivalResult(name, (len(messages), 0), (before, 0), budget, requirements.rounds, {}, (why,))
    losses = [*_check_validity(watched, messages, result, requirements, budget), *_find_invented(messages, result)]
    view, kept = IndexedView(result.messages), {}
    losses += _find_stale(view, revoked, requirements)
    for kind, probes in asked.items():
        verdicts = [(probe, _judge_probe(kind, probe, view)) for probe in probes]
        kept[kind] = (sum(v == "present" for _, v in verdicts), len(probes))
        if kept[kind][0] < requirements.get_share(kind) * len(probes):
            losses += [_describe_loss(kind, p, v, messages) for p, v in verdicts if v != "present"]
    sizes = (len(messages), len(result.messages)), (before, result.tokens)
    return SurvivalResult(name, *sizes, budget, requirements.rounds, kept, tuple(losses))


def _collect_probes(
    messages: Sequence[ChatMessage], planted_probes: Sequence[Probe], requirements: _Requirements
) -> tuple[dict[str, list[Probe]], list[Revocation]]:
    """Returns the probes by kind, only for kinds that the session has any of, and the rules that were revoked."""
    planted_texts = {probe.text for probe in planted_probes}
    every = [*(p for p in collect_probes(messages) if p.text not in planted_texts), *planted_probes]
    found: dict[str, list[Probe]] = {kind: [p for p in every if p.kind == kind] for kind in requirements.at_least}
    revoked = find_revocations(messages, [p for kind in _RULE_KINDS for p in found.get(kind, [])])
    for each in revoked:
        found[each.rule.kind].remove(each.rule)
    found[MUST_HOLD] = _build_own_probes(messages, requirements.must_hold)
    return {kind: probes for kind, probes in found.items() if probes}, revoked


def _judge_probe(kind: str, probe: Probe, view: IndexedView) -> str:
    """Judges a probe. A text of the caller's own has to be said as it is, not its opposite."""
    verdict = judge(probe, view)
    if kind == MUST_HOLD and verdict == "present" and not is_said_so(view, probe.text, probe.answer):
        return "opposite"
    return verdict


def _find_stale(view: IndexedView, revoked: Sequence[Revocation], requirements: _Requirements) -> Iterator[Loss]:
    """Yields what the view says and may not say: texts of the caller's own, and revoked rules without revocation."""
    for text, anchor in requirements.must_not_hold:
        answer = build_terms(_split_words(text))
        if has_answer(view, answer, build_terms(find_content_words(anchor))) and is_said_so(view, text, answer):
            yield Loss(MUST_NOT_HOLD, f"the result says it: {sanitize(text)}")
    for rule, sentence in ((each.rule, each.sentence) for each in revoked):
        answer = build_terms(_split_words(sentence))
        is_shown = judge(rule, view) == "present" and is_said_so(view, rule.text, (*rule.answer, *rule.anchor))
        if is_shown and not (has_answer(view, answer, ()) and is_said_so(view, sentence, answer)):
            yield Loss(MUST_NOT_HOLD, f"revoked, yet said as if it held: {sanitize(rule.text)}")


def _describe_loss(kind: str, probe: Probe, verdict: str, messages: Sequence[ChatMessage]) -> Loss:
    """Describes a miss. The text is redacted first, since a secret that is cut in two is no longer recognised."""
    where = f"message {probe.index} ({get_role(messages[probe.index])})" if probe.index >= 0 else "the session"
    why = {"stale": "superseded, yet still said", "opposite": "the result says the opposite"}.get(verdict, "lost")
    return Loss(kind, f"{why}, {where}: {sanitize(probe.text)}")


def _check_validity(
    method: _WatchedMethod,
    messages: Sequence[ChatMessage],
    result: MethodResult,
    requirements: _Requirements,
    budget: int,
) -> Iterator[Loss]:
    """Checks the gates of the result, the size after every round, the input, and a second run."""
    found = find_failures(messages, result.messages)
    for number, tokens, note in method.oversized_results:
        after = f" after compaction {number}" if requirements.rounds > 1 else ""
        over = f"{tokens:,} tokens{after} where {budget:,} were allowed: {tokens - budget:,} too many"
        found.append(GateFailure("over budget", -1, f"{over}; {note}" if note else over))
    if method.has_changed_input:
        found.append(GateFailure("changed input", -1, "the messages that were passed in were changed"))
    if "two runs differ" in requirements.gates:
        again = compact_in_rounds(method.method, messages, budget=budget, rounds=requirements.rounds)
        if [msgspec.json.encode(m) for m in result.messages] != [msgspec.json.encode(m) for m in again.messages]:
            counts = f"{len(result.messages)} and {len(again.messages)} messages"
            found.append(GateFailure("two runs differ", -1, f"the same session, compacted again: {counts}, not alike"))
    for each in found:
        if each.gate in requirements.gates:
            yield Loss(
                each.gate, f"message {each.index} of the result: {each.reason}" if each.index >= 0 else each.reason
            )


def _find_invented(messages: Sequence[ChatMessage], result: MethodResult) -> Iterator[Loss]:
    for fact in find_false_facts(messages, result.messages):
        yield Loss(FALSE_FACTS, f"the {fact.kind} {sanitize(fact.text)}, message {fact.index} of the result")
