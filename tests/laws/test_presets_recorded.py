"""The laws for every preset over recorded sessions: three compactions each, with the session going on between them."""

from __future__ import annotations

from functools import cache

import pytest

from tenfold.compaction.engine.call import Call
from tenfold.core.record.token_reading import Counted
from tenfold.formats import ParsedSession
from tests import sessions
from tests.laws import conversations, presets, recorded
from tests.laws.conversations import count_tokens
from tests.laws.presets import BAD, NAMES, Bad, Good, Judge

FILES = (
    "pi/before-compaction.jsonl",
    "openhands-requests/django__django-11299.json",
    "swe-agent/marshmallow-1867.function_calling.traj",
    "tau2/toolorchestra_retail_gpt-5_1trial.json",
    "cline/session.messages.json",
)
MOST = 240
"""Entries of one session that are taken: the laws are judged over the whole path, again and again."""


@cache
def find_longest_session(file: str) -> ParsedSession:
    """The longest session of a file."""
    path = next(p for p in sessions.list_session_files() if sessions.get_short_name(p) == file)
    return max(sessions.read(path), key=lambda session: len(session.entries))


@pytest.mark.costly(4)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_session_compacted_three_times(name: str, file: str) -> None:
    """Each with another model: one that answers well, one that answers badly, none."""
    sessions.require_sessions()
    log = recorded.get_path(find_longest_session(file))[:MOST]
    half = len(log) // 2
    judge = Judge(presets.open_session(name, log[:half], Good(presets.build_preset(name).summary)))
    session, said = judge.session, conversations.extract_messages(log[half:])
    third = -(-len(said) // 3)
    judge.compact(Call(to=Counted(max(2_000, count_tokens(session.view.get_messages()) // 3))))
    assert judge.compactions == 1
    session.append(*said[:third])
    session.compactor.use_answerer(presets.build_answerer(Bad(sorted(BAD))))
    judge.compact(Call(to=Counted(max(2_000, count_tokens(session.view.get_messages()) // 3))))
    session.append(*said[third : 2 * third])
    session.compactor.use_policy(presets.build_preset(name, models=()))
    session.compactor.use_answerer(presets.build_answerer(None))
    judge.compact(Call("manual", window=max(8_000, count_tokens(session.view.get_messages()) * 11 // 10)))
    session.append(*said[2 * third :])
    presets.assert_well_formed(session)
    judge.check_whole_path()
