"""What a policy makes of a recorded session is what it was in 0.1.0, but for the changes that are explained."""

from __future__ import annotations

import pytest

from tests import sessions
from tests.behaviour import recording
from tests.thorough import is_taken

KNOWN = recording.read_hashes()
HERE = [name.rsplit("|", 2)[0] for name, *_ in recording.iterate_cases()]
WAYS = len(recording.WAYS)


@pytest.mark.costly(6)
@pytest.mark.parametrize("which", dict.fromkeys(HERE))
def test_a_recorded_session_is_compacted_as_before(which: str) -> None:
    """Each policy in one of the ways, and in all of them in a thorough run."""
    cases = [case for case in recording.iterate_cases() if case[0].startswith(f"{which}|")]
    taken = [case for at, case in enumerate(cases) if is_taken(which, at + at // WAYS, WAYS)]
    made = {case[0]: recording.record(*case) for case in taken}
    assert len(made) >= len(cases) // WAYS
    expected = {name: KNOWN[name] for name in made}
    assert {name: text for name, text in made.items() if text != expected[name]} == {}


def test_every_recorded_session_is_there() -> None:
    sessions.require_sessions()
    assert {name for name, *_ in recording.iterate_cases()} == KNOWN.keys()


def test_every_change_is_explained_and_alters_cases_that_there_are() -> None:
    before = recording.read_released()
    for name, cases in recording.read_changes().items():
        assert recording.EXPLAINED[name]
        assert cases
        assert cases.keys() <= before.keys()
        assert [case for case, text in cases.items() if before[case] == text] == []
        before.update(cases)
