"""Reads public sets of questions about long conversations, in the form in which each is published.

Nothing here uses the network, and no set is part of the project: you fetch it from the page that each names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.asked_sessions import MIN_ANSWER_LENGTH, AskedQuestion, AskedSession

Kind = TypeVar("Kind")


class PublicSet(NamedTuple):
    """A public set: its name as people write it, the page that publishes it, which file to name, and its reader."""

    title: str
    page: str
    file: str
    read: Callable[[Path], Iterator[AskedSession]]


def read_public_set(name: str, path: Path, *, first: int | None = None) -> list[AskedSession]:
    """Reads the conversations of a public set, or only the first of them. `name` is one of `PUBLIC_SETS`.

    Questions that have no answer in the conversation are left out. Raises `BadInput`, with the page that publishes the
    set, if the path does not exist or has another form.
    """
    known = PUBLIC_SETS[name]
    where = f"{known.title} is published at {known.page}; name {known.file} of it"
    try:
        found = list(islice(known.read(path), first))
    except OSError as exc:
        raise BadInput(f"{exc.filename or path}: {exc.strerror or exc}. {where}") from exc
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, ValueError) as exc:
        raise BadInput(f"{path} has not the form of {known.title}: {exc}. {where}") from exc
    if not any(session.questions for session in found):
        raise BadInput(f"{path} holds no question of {known.title} that has an answer. {where}")
    return found


def _decode(path: Path, kind: type[Kind]) -> Kind:
    return msgspec.json.decode(path.read_bytes(), type=kind)


def _list_expected(answer: str) -> tuple[str, ...]:
    """Returns the whole answer as what a view must hold, unless it is too short to say anything."""
    return (answer,) if len(answer) >= MIN_ANSWER_LENGTH else ()


# -- LoCoMo ------------------------------------------------------------------------------------------------------------

_LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""What its numbers mean, by its own evaluation; the order in its paper is another."""
_LOCOMO_SESSION, _LOCOMO_TURN = re.compile(r"session_(\d+)"), re.compile(r"D\d+:\d+")


class _LocomoTurn(Struct):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


class _LocomoQuestion(Struct):
    question: str
    category: int
    answer: str | int | float | None = None
    evidence: list[str] = []


class _LocomoSample(Struct):
    sample_id: str | int
    conversation: dict[str, Any]
    qa: list[_LocomoQuestion]


def _read_locomo(path: Path) -> Iterator[AskedSession]:
    """A turn reads as in its own retrieval: the speaker, the words, a picture's caption; the first of a day its date.

    Adversarial questions ask for what was never said, and have no answer.
    """
    for sample in _decode(path, list[_LocomoSample]):
        talk = sample.conversation
        places: dict[str, int] = {}
        messages: list[ChatMessage] = []
        numbers = sorted(int(found[1]) for name in talk if (found := _LOCOMO_SESSION.fullmatch(name)))
        for number in numbers:
            date = f"[{talk.get(f'session_{number}_date_time', f'session {number}')}]\n"
            for turn in msgspec.convert(talk[f"session_{number}"], list[_LocomoTurn]):
                places[turn.dia_id] = len(messages)
                role = "user" if turn.speaker == talk.get("speaker_a") else "assistant"
                messages.append({"role": role, "content": date + _render_locomo_turn(turn)})
                date = ""
        questions = [
            AskedQuestion(
                f"{sample.sample_id}-{at:03}",
                one.question,
                str(one.answer),
                _list_expected(str(one.answer)),
                _sort_known(places, _LOCOMO_TURN.findall(" ".join(one.evidence))),
                _LOCOMO_KINDS.get(one.category, str(one.category)),
            )
            for at, one in enumerate(sample.qa)
            if one.answer is not None and _LOCOMO_KINDS.get(one.category) != "adversarial"
        ]
        yield AskedSession(str(sample.sample_id), tuple(messages), tuple(questions), "LoCoMo")


def _render_locomo_turn(turn: _LocomoTurn) -> str:
    shared = f" [shares {turn.blip_caption}]" if turn.blip_caption else ""
    return f"{turn.speaker}: {turn.text}{shared}"


# -- BEAM --------------------------------------------------------------------------------------------------------------

_PLAN_REFERENCE = re.compile(r"\s*->->.*\Z", re.DOTALL)
_STATED = re.compile(r"LLM response should (?:state|mention):?\s*")
"""How a point of its rubric begins that asks for a fact. The others ask for a manner."""
_BEAM_ANSWERS = ("answer", "ideal_answer", "ideal_summary", "expected_compliance")


class _BeamTurn(Struct):
    id: int
    role: str
    content: str


class _BeamBatch(Struct):
    turns: list[list[_BeamTurn]]


def _read_beam(path: Path) -> Iterator[AskedSession]:
    """Where a conversation was cut to the size of its folder, that version is read. Abstentions have no answer."""
    chats = [each for each in path.iterdir() if (each / "probing_questions").is_dir()]
    if (path / "probing_questions").is_dir():
        chats = [path]
    if not chats:
        raise ValueError("no folder in it has a folder probing_questions")
    for chat in sorted(chats, key=lambda each: (len(each.name), each.name)):
        cut = chat / "chat_trunecated.json"
        batches = _decode(cut if cut.exists() else chat / "chat.json", list[dict[str, Any]])
        if batches and "turns" not in batches[0]:  # those of 10M tokens are several plans of batches
            batches = [batch for plans in batches for plan in plans.values() for batch in plan]
        turns = [t for batch in msgspec.convert(batches, list[_BeamBatch]) for group in batch.turns for t in group]
        places = {str(turn.id): at for at, turn in enumerate(turns)}
        messages: list[ChatMessage] = [
            {"role": turn.role, "content": _PLAN_REFERENCE.sub("", turn.content)} for turn in turns
        ]
        asked = _decode(chat / "probing_questions" / "probing_questions.json", dict[str, list[dict[str, Any]]])
        questions = [
            _build_beam_question(f"{chat.parent.name}-{chat.name}-{kind}-{at}", kind, one, places)
            for kind, own in asked.items()
            for at, one in enumerate(own, 1)
            if kind != "abstention"
        ]
        yield AskedSession(f"{chat.parent.name}/{chat.name}", tuple(messages), tuple(questions), "BEAM")


def _build_beam_question(name: str, kind: str, one: Mapping[str, Any], places: Mapping[str, int]) -> AskedQuestion:
    rubric = [str(point) for point in one.get("rubric", ())]
    facts = [_STATED.sub("", point).strip(" .") for point in rubric if _STATED.match(point)]
    is_checkable = len(facts) == len(rubric) and all(len(fact) >= MIN_ANSWER_LENGTH for fact in facts)
    answer = next((str(one[key]) for key in _BEAM_ANSWERS if one.get(key)), "; ".join(rubric))
    evidence = _sort_known(places, _iter_ids(one.get("source_chat_ids")))
    return AskedQuestion(name, str(one["question"]), answer, tuple(facts) if is_checkable else (), evidence, kind)


def _iter_ids(value: Any) -> Iterator[str]:  # noqa: ANN401 - ids, lists of ids, and objects of them
    if isinstance(value, int):
        yield str(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iter_ids(inner)


# -- LongMemEval -------------------------------------------------------------------------------------------------------


class _MemoryTurn(Struct):
    role: str
    content: str
    has_answer: bool | None = None


class _MemoryInstance(Struct):
    question_id: str
    question_type: str
    question: str
    answer: str | int | float
    haystack_sessions: list[list[_MemoryTurn]]
    haystack_dates: list[str] = []


def _read_longmemeval(path: Path) -> Iterator[AskedSession]:
    """Each question has a conversation of its own. Those whose id ends in `_abs` have no answer."""
    for one in _decode(path, list[_MemoryInstance]):
        messages: list[ChatMessage] = []
        evidence: list[int] = []
        for number, turns in enumerate(one.haystack_sessions):
            date = f"[{one.haystack_dates[number]}]\n" if number < len(one.haystack_dates) else ""
            for turn in turns:
                if turn.has_answer:
                    evidence.append(len(messages))
                messages.append({"role": turn.role, "content": date + turn.content})
                date = ""
        answer = str(one.answer)
        asked = AskedQuestion(
            one.question_id, one.question, answer, _list_expected(answer), tuple(evidence), one.question_type
        )
        questions = () if one.question_id.endswith("_abs") else (asked,)
        yield AskedSession(one.question_id, tuple(messages), questions, "LongMemEval")


def _sort_known(places: Mapping[str, int], ids: Iterator[str] | Sequence[str]) -> tuple[int, ...]:
    return tuple(sorted({places[each] for each in ids if each in places}))


PUBLIC_SETS: Mapping[str, PublicSet] = {
    "beam": PublicSet(
        "BEAM", "https://github.com/mohammadtavakoli78/BEAM", "a folder such as chats/100K or chats/100K/1", _read_beam
    ),
    "locomo": PublicSet("LoCoMo", "https://github.com/snap-research/locomo", "data/locomo10.json", _read_locomo),
    "longmemeval": PublicSet(
        "LongMemEval",
        "https://github.com/xiaowu0162/LongMemEval",
        "longmemeval_s.json, longmemeval_m.json or longmemeval_oracle.json",
        _read_longmemeval,
    ),
}
"""The sets by the name that `--set` takes."""
