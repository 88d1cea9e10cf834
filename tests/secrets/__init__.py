"""The corpus of secrets, and how its placeholders become made-up values."""

from __future__ import annotations

import random
import re
import string
import tomllib
import uuid
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).resolve().parent
_ALPHABETS = {
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "alnum": string.ascii_letters + string.digits,
    "loweralnum": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + "234567",
    "lower": string.ascii_lowercase,
    "digits": string.digits,
    "url": string.ascii_letters + string.digits + "_-",
    "b64_": string.ascii_letters + string.digits + "+/",
    "base58_": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
}
"""A placeholder is one of these names and a length: `@hex32@`. Others are `@pw12@`, a password; `@card15@`, the rest of
a card number up to its check digit (`@card15s@`: with spaces); `@words12@`; `@uuid@`; and `@@`, nothing."""
_PLACEHOLDER = re.compile(r"@([a-zA-Z][a-zA-Z0-9]*?_?)(\d+)(s?)@|@(uuid)@|@@")
_WORDS = [
    "river", "copper", "lantern", "meadow", "violin", "harbor", "pencil", "winter", "saddle", "orbit", "tunnel",
    "basket", "cactus", "marble",
]  # fmt: skip


class Kind(Struct, frozen=True):
    """A kind of secret: a text that holds one, and the values in it that nothing may show."""

    name: str
    text: str
    secrets: tuple[str, ...]


def load_kinds() -> list[Kind]:
    """Reads the corpus. The values are the same at each call."""
    tables = tomllib.loads((FOLDER / "kinds.toml").read_text(encoding="utf-8"))
    return [
        Kind(f"{group}: {name}", *fill(template.strip("\n"), f"{group}/{name}"))
        for group, table in tables.items()
        for name, template in table.items()
    ]


def load_lookalikes() -> list[str]:
    """Reads the texts that only look as if they held a secret."""
    texts = tomllib.loads((FOLDER / "lookalikes.toml").read_text(encoding="utf-8"))["texts"]
    return [fill(text, text)[0] for text in texts]


def fill(template: str, seed: str) -> tuple[str, tuple[str, ...]]:
    """Replaces the placeholders of a template. Returns the text and the values that were put in."""
    rng, secrets = random.Random(seed), list[str]()  # noqa: S311  the values are made up

    def replace(match: re.Match[str]) -> str:
        if match[0] == "@@":
            return ""
        if match[4]:
            value = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        else:
            value = _make_value(match[1], int(match[2]), match[3], match.string[: match.start()], rng)
        secrets.append(value)
        return value

    text = _PLACEHOLDER.sub(replace, template)
    return text, tuple(secrets)


def _make_value(kind: str, size: int, style: str, before: str, rng: random.Random) -> str:
    if kind == "words":
        return " ".join(rng.choice(_WORDS) for _ in range(size))
    if kind == "card":
        return _make_card(re.search(r"\d*$", before)[0], size, style, rng)  # type: ignore[index]
    if kind == "pw":
        characters = [rng.choice(each) for each in (string.ascii_uppercase, string.ascii_lowercase, string.digits)]
        characters += rng.choices(string.ascii_letters + string.digits, k=size - len(characters))
        rng.shuffle(characters)
        return "".join(characters)
    while True:
        value = "".join(rng.choices(_ALPHABETS[kind], k=size))
        is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        if is_mixed or kind in ("lower", "digits") or size < 8:
            return value


def _make_card(start: str, size: int, style: str, rng: random.Random) -> str:
    digits = start + "".join(rng.choices(string.digits, k=size - 1))
    doubled = sum(sum(divmod(2 * int(d), 10)) for d in digits[::-2])
    rest = digits + str(-(doubled + sum(map(int, digits[-2::-2]))) % 10)
    if style:
        rest = " ".join(rest[i : i + 4] for i in range(0, len(rest), 4))
    return rest[len(start) :]
