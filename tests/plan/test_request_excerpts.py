"""What is shown of a long request: verbatim pieces in order, pasted parts cut first, and nothing of it forgotten."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tenfold.compaction.plan.stubs import cut_attachments, find_hidden_part

GAP = re.compile(r"(?:\n|\A)\[\.\.\. ([\d,]+) characters of the request left out[^\n]*\](?:\n|\Z)")


def write_request(shape: list[tuple[bool, int]]) -> str:
    """Writes a request of own paragraphs (True) and pasted documents, each of so many numbered lines."""
    parts: list[str] = []
    for number, (is_own, length) in enumerate(shape):
        lines = [f"part {number} line {line} says what is wanted of it" for line in range(length)]
        parts.append("\n".join(lines if is_own else [f"<doc{number}>", *lines, f"</doc{number}>"]))
    return "\n".join(parts)


SHAPES = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=6)


@given(SHAPES, st.integers(300, 4_000), st.sampled_from(["", '; recall_read(entry="e1") gives it back']))
def test_a_request_is_shown_in_verbatim_pieces_and_its_gaps_are_counted(
    shape: list[tuple[bool, int]], characters: int, hint: str
) -> None:
    request = write_request(shape)
    if len(request) <= characters:
        return
    shown = cut_attachments(request, characters, hint)
    assert len(shown) <= characters + 300
    pieces, left_out, at = GAP.split(shown), 0, 0
    for piece in pieces[::2]:
        found = request.find(piece, at)
        assert found >= 0, piece
        left_out += len(request[at:found].strip("\n"))
        at = found + len(piece)
    left_out += len(request[at:].strip("\n"))
    stated = sum(int(number.replace(",", "")) for number in pieces[1::2])
    assert abs(stated - left_out) <= 2 * len(pieces)


@given(SHAPES, st.integers(300, 4_000))
def test_the_users_own_lines_are_shown_or_known_to_be_hidden(shape: list[tuple[bool, int]], characters: int) -> None:
    request = write_request(shape)
    if len(request) <= characters:
        return
    shown = cut_attachments(request, characters, "")
    hidden = find_hidden_part(request, shown)
    own = {number for number, (is_own, _) in enumerate(shape) if is_own}
    lines = [match[0] for match in re.finditer(r"^part (\d+) line.*$", request, re.MULTILINE) if int(match[1]) in own]
    told = f"{shown}\n{hidden}"
    assert [line for line in lines if line not in told] == []


def test_pasted_parts_give_way_before_own_words() -> None:
    request = write_request([(True, 3), (False, 60), (True, 12), (False, 60)])
    shown = cut_attachments(request, 2_000, "")
    assert all(f"part {part} line {line} " in shown for part, length in ((0, 3), (2, 12)) for line in range(length))
    assert len(GAP.findall(shown)) == 2
    assert find_hidden_part(request, shown) == ""


def test_a_request_without_pasted_parts_is_cut_between_its_lines() -> None:
    request = write_request([(True, 80)])
    shown = cut_attachments(request, 1_000, "")
    head, _, tail = GAP.split(shown)
    assert request.startswith(f"{head}\n")
    assert request.endswith(f"\n{tail}")
    assert find_hidden_part(request, shown).splitlines()[0] == request[len(head) + 1 :].splitlines()[0]
