"""Measures search on two public sets of questions about long conversations, which are not part of the project.

    python -m yardstick.scripts.public_sets locomo10.json     # data/locomo10.json of snap-research/LoCoMo
    python -m yardstick.scripts.public_sets chats/100K        # chats/100K of mohammadtavakoli78/BEAM
    python -m yardstick.scripts.public_sets examples/sessions # the project's own questions

A second argument names a store other than one in memory, such as postgresql://USER@HOST/DATABASE.

Each conversation is a session, and each turn a message. The evidence of a question is the turns that the set names, and
recall at k is the share of them among the first k hits for the question as it stands, the mean over all questions that
have evidence. With the extra `tenfold[semantic]` installed the same command measures search with it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.config.settings import build_policy
from tenfold.core.wire import WIRES
from tenfold.session import Session, SessionAddress
from tenfold.store.base import MEMORY_LOCATION, Store
from tenfold.store.ids import IDS
from tenfold.store.location import open_store
from tenfold.testing.chats import get_counter
from tenfold_yardstick.question_search import QUESTIONS_SUFFIX, find_evidence

DEPTHS = (1, 5, 10)
_DIALOG_ID = re.compile(r"D\d+:\d+")
_PLAN_REFERENCE = re.compile(r"\s*->->.*\Z", re.DOTALL)


class Conversation(Struct):
    """A conversation's turns as (id, role, text), and its questions, each with the ids of the turns that answer it."""

    turns: list[tuple[str, str, str]]
    questions: list[tuple[str, set[str]]]


def read_locomo(file: Path) -> Iterator[Conversation]:
    """Yields the conversations of LoCoMo. A turn reads as in its own retrieval: speaker, words, picture's caption."""
    for sample in json.loads(file.read_bytes()):
        talk = sample["conversation"]
        names = sorted((name for name in talk if re.fullmatch(r"session_\d+", name)), key=lambda name: int(name[8:]))
        turns = [(turn["dia_id"], "user", _render_turn(turn)) for name in names for turn in talk[name]]
        questions = [(qa["question"], set(_DIALOG_ID.findall(" ".join(qa["evidence"])))) for qa in sample["qa"]]
        yield Conversation(turns, questions)


def _render_turn(turn: dict[str, str]) -> str:
    shared = f" and shared {turn['blip_caption']}." if turn.get("blip_caption") else ""
    return f'{turn["speaker"]} said, "{turn["text"]}"{shared}'


def read_beam(folder: Path) -> Iterator[Conversation]:
    """Yields the conversations of BEAM. Where one was cut to the size of its folder, that version."""
    for chat in sorted((each for each in folder.iterdir() if each.is_dir()), key=lambda each: int(each.name)):
        cut = chat / "chat_trunecated.json"
        batches = json.loads((cut if cut.exists() else chat / "chat.json").read_bytes())
        said = [turn for batch in batches for turns in batch["turns"] for turn in turns]
        turns = [(str(turn["id"]), turn["role"], _PLAN_REFERENCE.sub("", turn["content"])) for turn in said]
        asked = json.loads((chat / "probing_questions" / "probing_questions.json").read_bytes())
        kinds = (question for questions in asked.values() for question in questions)
        yield Conversation(turns, [(each["question"], set(_list_ids(each.get("source_chat_ids")))) for each in kinds])


def _list_ids(value: Any) -> Iterator[str]:  # noqa: ANN401 - ids, lists of ids, and objects of them
    if isinstance(value, int):
        yield str(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _list_ids(inner)


def read_own(folder: Path) -> Iterator[Conversation]:
    """Yields the sessions of a folder that have questions beside them. The evidence is what holds the answer."""
    for path in sorted(folder.iterdir()):
        if path.name.endswith(QUESTIONS_SUFFIX) or not path.with_suffix(QUESTIONS_SUFFIX).exists():
            continue
        texts, questions = find_evidence(path)
        turns = [(str(at), "user", text) for at, text in enumerate(texts)]
        yield Conversation(turns, [(each.prompt, set(map(str, each.evidence))) for each in questions])


def measure_recall(conversation: Conversation, store: Store) -> Iterator[tuple[float, ...]]:
    """Asks the questions of one conversation. Yields recall at each depth, and the milliseconds of a search.

    The time is the processor's for five hits, which is the default.
    """
    address = SessionAddress(store, IDS.generate())
    session = Session.create(address, build_policy("tenfold", get_counter()))
    items = [msgspec.json.encode({"role": role, "content": text}) for _, role, text in conversation.turns]
    session.append(*WIRES["openai-chat"].decode(items))
    session.search("anything")  # which fills the index
    ids = [id_ for id_, *_ in conversation.turns]
    for question, named in conversation.questions:
        evidence = named & set(ids)
        if evidence:
            found = [ids[hit.position] for hit in session.search(question, limit=max(DEPTHS))]
            start = time.process_time()
            found[:5] = [ids[hit.position] for hit in session.search(question)]
            spent = 1e3 * (time.process_time() - start)
            yield (*(len(evidence & set(found[:depth])) / len(evidence) for depth in DEPTHS), spent)


def main(path: Path, location: str) -> None:
    """Prints recall at each depth over all conversations of a set."""
    is_own = path.is_dir() and any(path.glob(f"*{QUESTIONS_SUFFIX}"))
    conversations = read_own(path) if is_own else read_beam(path) if path.is_dir() else read_locomo(path)
    rows: list[tuple[float, ...]] = []
    for conversation in conversations:
        with closing(open_store(location)) as store:
            rows += measure_recall(conversation, store)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    with_extra = "with" if find_spec("wordllama") else "without"
    recalls = ", ".join(f"at {depth} {mean:.3f}" for depth, mean in zip(DEPTHS, means, strict=False))
    print(f"{len(rows)} questions, {with_extra} the extra: recall {recalls}; {means[-1]:.1f} ms of CPU a question")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else MEMORY_LOCATION)
