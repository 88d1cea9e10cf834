"""Every kind of secret in the corpus is recognised wherever it stands, and nothing that only looks like one."""

from __future__ import annotations

import json

import pytest

from tenfold.core.text.redaction import MASK, redact
from tests.secrets import Kind, load_kinds, load_lookalikes

KINDS, LOOKALIKES = load_kinds(), load_lookalikes()


def write_everywhere(text: str) -> list[str]:
    """The text alone, among other lines, as an argument of a call, and in the listing of a file."""
    lines = f"as it was\n{text}\nas it is"
    return [
        text,
        lines,
        json.dumps({"command": lines, "timeout": 20}),
        json.dumps({"command": lines}, ensure_ascii=False),
        "\n".join(f"{number:>4}\t{line}" for number, line in enumerate(lines.splitlines(), 1)),
        f"{'nothing to see here, ' * 40}\n{text}\n{'and nothing here. ' * 40}",
    ]


def find_left(text: str, secrets: tuple[str, ...]) -> list[str]:
    """The secrets that a text shows, whole or the greater part of them."""
    parts = ((s, *((s[: len(s) * 2 // 3], s[len(s) // 3 :]) if len(s) >= 12 else ())) for s in secrets)
    return [part for each in parts for part in each if part in text or json.dumps(part)[1:-1] in text]


def test_the_corpus_is_large() -> None:
    assert len(KINDS) > 300
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all(kind.secrets for kind in KINDS)


def test_no_secret_is_left() -> None:
    left = {kind.name: text for kind in KINDS for text in write_everywhere(kind.text) if not is_redacted(kind, text)}
    assert left == {}


def is_redacted(kind: Kind, text: str) -> bool:
    """Whether all secrets are masked, and would be no further."""
    shown = redact(text)
    return find_left(shown, kind.secrets) == [] and MASK in shown and redact(shown) == shown


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_is_no_secret_stays(text: str) -> None:
    assert [redact(each) for each in write_everywhere(text)] == write_everywhere(text)
