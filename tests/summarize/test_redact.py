"""Secrets leave no summary; ordinary text stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.text.redaction import MASK, redact
from tenfold.core.text.secret_labels import ASSIGNMENT, LABELLED_VALUE

BODY = "Zx9Qw7Er5Ty3Ui1Op0As8Df6Gh4Jk2Lz"


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


_LETTERS = "\u017f\u212a\u0130\u0131\u00df"  # a long s, a kelvin sign, dotted and dotless i: they match s, k and i
_PIECES = (
    "api_key",
    "KEY",
    "to\u212aen",
    "pa\u017fswd",
    "credent\u0131als",
    "CREDENT\u0130AL",
    "Secret",
    "pwd",
    "pass",
)


@given(
    st.lists(st.sampled_from((*_PIECES, "=", ":", " ", "\n", '"', "'", ";", "hunter2", "[", "]")) | st.text(_LETTERS))
)
def test_what_is_looked_for_first_stands_wherever_a_labelled_value_does(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert not LABELLED_VALUE.search(text) or ASSIGNMENT.search(text.casefold())


@pytest.mark.parametrize("label", ["password", "pa\u017fsword", "api_\u212aey"])
def test_a_label_in_other_letters_is_a_label(label: str) -> None:
    assert redact(f"the {label}: x1y2z3w4 of it") == f"the {label}: {MASK} of it"
