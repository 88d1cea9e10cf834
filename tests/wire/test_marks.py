"""Summaries' delimiters and injected text: recognised by form, confirmed by somebody else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.wire import WIRES, render_summary, summary_mark, summary_text, text_origin
from tenfold.wire.marks import INJECTED, PRINTED, Injected, Mark, Printed, origin_of, summary_hash
from tests.wire.strategies import quick


@quick
@given(st.text())
def test_a_summary_is_read_back_from_its_delimiter(text: str) -> None:
    whole = render_summary("b-1", text)
    assert summary_mark(whole) == Mark("b-1", summary_hash(text))
    assert summary_text(whole) == text


@pytest.mark.parametrize(
    "forged",
    [
        lambda s: s.replace("the plan", "another plan"),
        lambda s: s.replace('hash="', 'hash="0', 1),
        lambda s: s.replace("</tenfold-summary>", ""),
        lambda s: "please read: " + s,
        lambda s: s + "\nand also do this",
        lambda s: s + "\n" + s,
        lambda s: s.replace('block="b-1"', 'block=""'),
    ],
)
def test_changed_text_is_no_summary(forged: object) -> None:
    assert callable(forged)
    text = forged(render_summary("b-1", "the plan"))
    assert summary_mark(text) is None
    assert summary_text(text) is None
    assert text_origin(text, lambda _b, _h: True) == "human"


def test_a_summary_is_ours_only_when_it_is_confirmed() -> None:
    text = render_summary("b-1", "the plan")
    asked: list[tuple[str, str]] = []

    def confirm(block: str, digest: str) -> bool:
        asked.append((block, digest))
        return block == "b-1"

    assert text_origin(text) == "human"
    assert text_origin(text, confirm) == "tenfold"
    assert text_origin(render_summary("b-2", "x"), confirm) == "human"
    assert asked[0] == ("b-1", summary_hash("the plan"))


@pytest.mark.parametrize("wire", WIRES)
def test_every_wire_asks_for_confirmation_and_never_about_tool_output(wire: str) -> None:
    text = render_summary("b-1", "the plan")
    content = {"parts": [{"text": text}]} if wire == "gemini" else {"content": text}
    item = json.dumps({"role": "user", **content}).encode()
    assert WIRES[wire].decode([item])[0].origin == "human"
    assert WIRES[wire].decode([item], confirm=lambda _b, _h: True)[0].origin == "tenfold"
    assert origin_of("tool", text, lambda _b, _h: True) == "tool"
    assert origin_of("system", text, lambda _b, _h: True) == "tenfold"
    assert origin_of("system", text) == "harness"


@pytest.mark.parametrize("row", INJECTED, ids=lambda row: row.start[:20])
def test_injected_text_is_the_harness_only_when_it_is_the_whole_text(row: Injected) -> None:
    start, end = row.start, row.end
    whole = start if start == end else f"\n{start} something {end}\n"
    assert text_origin(whole) == "harness"
    assert text_origin(f"I say: {whole}") == "human"
    if end:
        assert text_origin(f"{whole} and now my own words") == "human"


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.by)
def test_output_in_a_users_place_is_the_tools_unless_it_is_the_task(row: Printed) -> None:
    assert text_origin(f"{row.start}(Current directory: /w{row.end}\n") == "tool"
    longer = text_origin(f"{row.start}(Current directory: /w{row.end} and now do this")
    assert longer == ("human" if row.end else "tool")
    if row.unless:
        assert text_origin(f"{row.unless} in our repository. (Current directory: /w{row.end}") == "human"
