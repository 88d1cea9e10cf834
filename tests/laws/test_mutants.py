"""The laws can fail: every broken fold of `mutants.py` is told from the real one, and the real one passes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tenfold.core.record.entry import Entry
from tenfold.core.view.fold import View
from tests.laws import checks, mutants, strategies
from tests.laws.checks import Fold
from tests.laws.mutants import MUTANTS, Mutant

SEEDS = range(70)
LOGS = [strategies.build_seeded_log(seed, most=6 + seed // 3) for seed in SEEDS]


def assert_forks_everywhere(fold: Fold, log: Sequence[Entry]) -> None:
    for at in range(0, len(log) + 1, 3):
        checks.assert_forks_apart(fold, log, at)


LAWS: tuple[Callable[[Fold, Sequence[Entry]], None], ...] = (
    checks.assert_agrees_with_oracle,
    checks.assert_folds_same_twice,
    checks.assert_extends_as_it_folds,
    assert_forks_everywhere,
    checks.assert_opens_from_snapshots,
    checks.assert_keeps_prefix,
    checks.assert_originals_reachable,
    checks.assert_positions_tiled,
    checks.assert_blocks_undoable,
    checks.assert_refuses_stale_blocks,
    checks.assert_names_whole_ranges,
)


def find_killer(fold: Fold) -> str:
    """The first law that this fold breaks, with the log that shows it; empty if it breaks none."""
    for seed, log in zip(SEEDS, LOGS, strict=True):
        for law in LAWS:
            if broken := find_breach(law, fold, log):
                return f"{law.__name__} (seed {seed}: {broken})"
    return ""


def find_breach(law: Callable[[Fold, Sequence[Entry]], None], fold: Fold, log: Sequence[Entry]) -> str:
    """Why the law does not hold, empty when it does. A crash inside the fold counts as a breach."""
    try:
        law(fold, log)
    except (AssertionError, LookupError, ValueError, TypeError, AttributeError) as exc:
        return f"{type(exc).__name__} {exc}"[:80]
    return ""


def test_an_unedited_copy_breaks_no_law() -> None:
    copied = mutants.build_fold(Mutant("none", mutants.VIEW, "class View:", "class View:"))
    assert copied is not View
    assert find_killer(copied) == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_laws_kill(mutant: Mutant) -> None:
    assert find_killer(mutants.build_fold(mutant)), f"no law tells {mutant.name} from the fold"


def test_an_edit_whose_text_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutants.build_fold(Mutant("gone", mutants.VIEW, "no such text", ""))
