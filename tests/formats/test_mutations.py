"""Two thousand damaged session files of all formats: each is refused with a reason, or read with nothing lost.

The files are the made ones, changed at random places with a fixed seed: bytes, lines, and the values of JSON fields.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenfold.config.policies import POLICIES
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.entry import CustomEntry, get_message
from tenfold.errors import BadInput
from tenfold.formats import ParsedSession, read_data, render_sessions
from tenfold.formats.export_items import get_view_items
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli
from tests.formats.made import FILES

COUNT = 2_000
VALUES: tuple[str, ...] = (
    "null",
    "true",
    "-1",
    "0.5",
    "NaN",
    "-Infinity",
    "1e999",
    str(2**64),
    "9" * 5_000,
    '""',
    '"x"',
    '"\\ud800"',
    '"\\u0000\\u202e\\u2028"',
    "[]",
    "{}",
    "[null]",
    '[{"type":"text"}]',
    '[["a"],{"b":[]}]',
    '{"type":"text","text":7}',
    '{"id":{},"role":[],"content":{}}',
    "[" * 2_000 + "]" * 2_000,
    '{"a":' * 2_000 + "1" + "}" * 2_000,
)
"""JSON texts that stand in place of a value of any type."""
Mutation = Callable[[bytes, random.Random], bytes]


def flip_bit(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def cut_off(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data))]


def cut_out(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randrange(1, 40) :]


def repeat_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def drop_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def insert_value(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + chance.choice(VALUES).encode() + data[place:]


def change_field(data: bytes, chance: random.Random) -> bytes:
    """Puts another value in place of one, wherever it stands in the JSON."""
    return _change_json(data, chance, lambda holder, key: holder.__setitem__(key, "@VALUE@"))


def drop_field(data: bytes, chance: random.Random) -> bytes:
    """Removes a key or an element."""
    return _change_json(data, chance, lambda holder, key: holder.__delitem__(key))


def copy_field(data: bytes, chance: random.Random) -> bytes:
    """Puts a value from elsewhere in the file in place of one: the types are swapped, and ids are used twice."""

    def copy(holder: Any, key: Any) -> None:  # noqa: ANN401 - any JSON
        places = _list_places(holder)
        other, name = chance.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))

    return _change_json(data, chance, copy)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    cut_off,
    cut_out,
    repeat_line,
    drop_line,
    insert_value,
    change_field,
    change_field,
    change_field,
    drop_field,
    copy_field,
)


def _change_json(data: bytes, chance: random.Random, change: Callable[[Any, Any], None]) -> bytes:
    """Changes one place of the file's JSON, or of one of its lines."""
    try:
        texts, number = [data.decode()], 0
        top = json.loads(texts[0])
    except ValueError:
        texts = data.decode().splitlines(keepends=True)
        number = chance.randrange(len(texts))
        try:
            top = json.loads(texts[number])
        except ValueError:  # a file that is no JSON
            return data
    places = _list_places(top)
    if not places:
        return data
    change(*chance.choice(places))
    changed = json.dumps(top, ensure_ascii=False).replace('"@VALUE@"', chance.choice(VALUES))
    texts[number] = changed + "\n"
    return "".join(texts).encode("utf-8", "surrogatepass")


def _list_places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    """Every (object or array, key or index) of a JSON value."""
    keys: list[Any] = list(value) if isinstance(value, dict) else []
    keys = list(range(len(value))) if isinstance(value, list) else keys
    return [place for key in keys for place in ((value, key), *_list_places(value[key]))]


def build_mutants(seed: int, count: int) -> list[tuple[str, str, bytes]]:
    """Names, formats and bytes of mutants, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311
    names = list(FILES)
    out = []
    for number in range(count):
        name = names[number % len(names)]
        format_, data = FILES[name]
        mutation = chance.choice(MUTATIONS)
        mutant = mutation(data, chance)
        if chance.random() < 0.2:
            mutant = chance.choice(MUTATIONS[:6])(mutant, chance) if mutant else mutant
        out.append((f"{number} {name} {mutation.__name__}", format_, mutant))
    return out


def read_mutant(data: bytes, format_: str, *, skip_damaged: bool) -> list[ParsedSession]:
    """Reads a mutant, [] if it is refused with a reason."""
    try:
        return read_data(data, file="mutant.json", format=format_, skip_damaged=skip_damaged)
    except BadInput as exc:
        reason = str(exc)
    assert len(reason) > 20
    assert "\n" not in reason
    return []


def use_sessions(sessions: list[ParsedSession]) -> None:
    """Does with the sessions what the commands do: stores, measures and compacts them, and writes them again."""
    store = SqliteStore(":memory:")
    items = []
    try:
        for each in import_sessions(sessions, store, DEFAULT_NAMESPACE, CharacterCounter()):
            session = Session(SessionAddress(store, each), POLICIES["tenfold"](CharacterCounter()))
            session.take_reading()
            session.compact(to=200)
            session.conversation.find_violations("anthropic")
            items.append(get_view_items(session.view))
        written = render_sessions([(s.info, view) for s, view in zip(sessions, items, strict=True)])
    finally:
        store.close()
    assert written or not sessions


def list_failures(seed: int, count: int) -> list[str]:
    """What went wrong with which mutant."""
    failures: list[str] = []
    for name, format_, mutant in build_mutants(seed, count):
        for skip_damaged in (False, True):
            try:
                sessions = read_mutant(mutant, format_, skip_damaged=skip_damaged)
                if not sessions:
                    continue
                if render_sessions([(s.info, s.entries) for s in sessions]) != mutant:
                    failures.append(f"{name}: bytes are lost")
                entries = [e for s in sessions for e in s.entries]
                damaged = sum(isinstance(e, CustomEntry) and e.kind == "damaged" for e in entries)
                if damaged > sum(len(s.problems) for s in sessions):
                    failures.append(f"{name}: damaged lines are not named")
                if any(get_message(entry) is not None for entry in entries):
                    use_sessions(sessions)
            except Exception as exc:  # noqa: BLE001 - whatever is raised is a failure, and all are listed
                failures.append(f"{name}, skip_damaged={skip_damaged}: {type(exc).__name__}: {str(exc)[:200]}")
    return failures


@pytest.mark.costly(2)
@pytest.mark.parametrize("seed", range(4))
def test_no_mutant_gives_a_traceback_or_loses_anything(seed: int) -> None:
    assert list_failures(seed, COUNT // 4) == []


def test_no_mutant_gives_the_command_a_traceback(tenfold: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mutant.json"
    for name, format_, mutant in build_mutants(9, 120):
        file.write_bytes(mutant)
        ran = tenfold("compact", file, "--to", "50%", "--format", format_, "--skip-damaged", "--store", ":memory:")
        assert ran.code in (0, 2, 3, 4), (name, ran.err)
        assert ran.out or ran.err, name
