"""Slices of JSON that is cut off or not quite JSON: what is whole is found, and every byte stays where it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.wire.splice import Slices, find_span, iterate_members, parse_string, slice_array
from tenfold.errors import BadInput

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
INDENTS = st.sampled_from((None, 0, 2))


def join_slices(slices: Slices) -> bytes:
    return b"".join(lead + item for lead, item in zip(slices.leads, slices.items, strict=True)) + slices.end


@given(st.lists(VALUES, max_size=5), INDENTS, st.integers(0, 200))
def test_the_whole_elements_of_an_array_that_is_cut_off_are_its_first_ones(
    values: list[object], indent: int | None, cut: int
) -> None:
    data = json.dumps(values, indent=indent).encode()[: cut + 1]
    slices = slice_array(data, is_partial=True)
    assert join_slices(slices) == data
    found = [json.dumps(json.loads(item)) for item in slices.items[:-1]]
    assert found == [json.dumps(value) for value in values[: len(found)]]


@given(st.lists(VALUES, max_size=5), INDENTS)
def test_a_whole_array_has_all_its_elements_with_nan_or_without(values: list[object], indent: int | None) -> None:
    slices = slice_array(json.dumps(values, indent=indent).encode(), is_partial=True)
    assert [json.dumps(json.loads(item)) for item in slices.items] == [json.dumps(value) for value in values]


@given(st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=5), INDENTS)
def test_the_members_of_an_object_are_its_values_by_key(value: dict[str, object], indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()
    found = {m.key: json.dumps(json.loads(data[m.start : m.end])) for m in iterate_members(data)}
    assert found == {key: json.dumps(each) for key, each in value.items()}


def test_the_member_in_which_an_object_is_cut_off_comes_last_and_has_no_end() -> None:
    members = list(iterate_members(b'{"a": [1, {"b": "]"}], "c": {"d": "e'))
    assert [(m.key, m.end) for m in members] == [("a", 21), ("c", -1)]
    assert find_span(b'{"a": [1], "c": {"d": ', "c") is None


def test_nan_is_a_value_of_files_only() -> None:
    data = b'[{"cost": NaN}, -Infinity , "x"]'
    assert slice_array(data, is_partial=True).items == (b'{"cost": NaN}', b"-Infinity", b'"x"')
    with pytest.raises(BadInput, match="not a JSON array"):
        slice_array(data)


def test_nesting_without_end_is_no_array() -> None:
    with pytest.raises(BadInput, match="not a JSON array"):
        slice_array(b"[" * 100_000 + b"]" * 100_000)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\\ud83d\ude00"', "\\ud83d\ufffd"),
        (rb'"\ud83d\\ude00"', "\ufffd\\ude00"),
    ],
)
def test_only_the_half_of_a_pair_that_stands_alone_is_replaced(raw: bytes, text: str) -> None:
    assert parse_string(raw) == text
