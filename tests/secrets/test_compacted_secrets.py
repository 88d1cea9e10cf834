"""What a compaction writes holds no secret of what it replaces, whatever the policy and wherever the secret stood."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tenfold import compact
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.block import Block
from tenfold.core.wire import WIRES
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.secrets import Kind, load_kinds
from tests.secrets.test_kinds import find_left

KINDS = load_kinds()
Item = dict[str, Any]
QUIET = {"role": "assistant", "content": "Nothing else was found in this part, so I go on with the next one."}


def build_step(number: int, arguments: Item, output: str) -> list[Item]:
    call = {"name": "bash", "arguments": json.dumps(arguments)}
    calls = [{"id": f"c{number}", "type": "function", "function": call}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def build_conversation(kinds: list[Kind]) -> list[Item]:
    """Each kind once in the user's words, once in a tool's output and once in the arguments of a call."""
    items: list[Item] = [{"role": "user", "content": "See whether the deployment went well, and mend what broke."}]
    for number, kind in enumerate(kinds):
        match number % 3:
            case 0:
                items += [{"role": "user", "content": f"For part {number} you need this:\n{kind.text}"}, QUIET]
            case 1:
                output = f"reading part {number}\n{kind.text}\nError: part {number} failed\n"
                items += build_step(number, {"command": f"cat part-{number}.txt"}, output)
            case _:
                items += build_step(number, {"command": f"cd part-{number}\n{kind.text}"}, "exit code: 1")
    last = f"Go on with what is left, and remember:\n{kinds[0].text}"
    return [*items, {"role": "user", "content": last}]


def list_leaks(texts: list[str], kinds: list[Kind]) -> list[tuple[str, list[str]]]:
    whole = "\n".join(texts)
    return [
        (kind.name, left) for kind in kinds if len(kind.secrets[0]) > 4 and (left := find_left(whole, kind.secrets))
    ]


@pytest.mark.costly(2)
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_policy_writes_a_secret(policy: str) -> None:
    shifts = (0, 1, 2) if policy in ("tenfold", "tail") else (0,)
    for shift in shifts:
        kinds = [*KINDS[shift:], *KINDS[:shift]]
        given = build_conversation(kinds)
        for target in (1_500, 6_000)[shift > 0 :]:
            made = compact(given, to=target, model="gpt-4o", format="openai-chat", policy=policy)
            written = [json.dumps(m, ensure_ascii=False) for m in made.messages if m not in given]
            assert written
            assert list_leaks(written, kinds) == []


def test_what_is_found_printed_and_logged_holds_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = SqliteStore(tmp_path / "store.db")
    policy = build_policy("tenfold", CharacterCounter())
    session = Session.create(SessionAddress(store, "s"), policy)
    session.sync(list(WIRES["openai-chat"].decode([json.dumps(m).encode() for m in build_conversation(KINDS)])))
    outcome = session.compact(to=4_000)
    block = store.locate("default", outcome.block or "").entry
    assert isinstance(block, Block)
    notes = [outcome.reason, *block.notes, *(r.reason for r in block.replacements)]
    snippets = [
        hit.snippet
        for number in range(0, len(KINDS), 3)
        for hit in (*store.search("default", f"part {number}"), *store.search_passages("default", f"part {number}"))
    ]
    assert len(snippets) > 100
    assert list_leaks([*notes, *snippets, caplog.text], KINDS) == []
    store.close()
