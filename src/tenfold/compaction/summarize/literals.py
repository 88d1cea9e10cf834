"""Finds the literals of a summary that occur nowhere in its source, and marks them in place as unconfirmed.

A literal is what a reader would copy: a path, an identifier, a number, code in backticks, a quotation. A literal is
confirmed if the source has it, in any of the spellings in which people write the same thing. Nothing is removed and no
sentence is read: whether a statement is true is not decided here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property

from tenfold.compaction.facts.tool_calls import interpret_call
from tenfold.core.record.block import Replacement, Substitute
from tenfold.core.record.fact import ChangedFile, Fact
from tenfold.core.record.message import Message, Thinking, get_text, get_tool_calls
from tenfold.core.text.excerpts import collapse_spaces, has_words, strip_escapes

UNCONFIRMED = " [unconfirmed]"
"""Stands behind a literal that the source does not have."""

# -- what a literal is -------------------------------------------------------------------------------------------------

_EXTENSIONS = (
    "py|pyi|js|jsx|ts|tsx|mjs|cjs|json|jsonl|md|rst|txt|toml|yaml|yml|ini|cfg|lock|sh|bash|rs|go|java|kt|c|h|cc|cpp|hpp|cs|rb|php|sql|html|css|scss"
    "|vue|svelte|xml|csv|tsv|ipynb|env|log|diff|patch|proto|graphql|prisma|swift|scala|lua|r|pl|ex|exs|dockerfile|tf|gradle"
)
_CODE = r"`(?P<code>[^`\n]{2,300})`"
_QUOTATION = (
    r"(?<![\w.,;!?)\]}\"'])\"(?=[^\s\"])(?P<double>[^\"\n]{1,400})(?<=\S)\"(?!\w)"
    r"|\u201c(?P<curly>[^\u201d\n]{1,400})\u201d|\u201e(?P<low>[^\u201c\n]{1,400})\u201c"
    r"|\u00ab\s?(?P<angle>[^\u00bb\n]{1,400})\u00bb"
)
_NAME = (
    r"https?://[^\s)\]>\"'`|]+"
    rf"|(?<![\w@./~-])(?:~/|\.{{0,2}}/)?(?:[\w@.+-]+/)+[\w@.+-]*\.(?:{_EXTENSIONS})\b(?![\w/])"
    r"|(?<![\w./~<:-])(?:~/|/)(?:[\w@.+-]+/)+[\w@.+-]+"
    rf"|(?<![\w@./~-])[a-z_][\w-]*(?:\.[\w-]+)*\.(?:{_EXTENSIONS})\b(?![\w/(])"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"
    r"|(?<![\w.])v?\d+\.\d+\.\d+(?:[-+][\w.]+)?\b|\b[\w.+-]{1,64}@[\w-]+\.[\w.-]+\b|\b[A-Z]{2,8}-?\d{3,}\b"
    r"|#[A-Z]?\d{3,}\b|\b0x[0-9A-Fa-f]{4,}\b|\b10\.\d{4,9}/[\w./()-]+\b"
    r"|(?<![\w./-])(?=[A-Za-z]*\d)(?!\d+[A-Za-z]{1,3}\b)(?=\d*[A-Za-z])[A-Za-z\d]{5,}\b"
    r"|(?<![\w./-])[A-Za-z]\w*_\w+\b|(?<![\w./-])[a-z]+\d*[A-Z]\w*\b|(?<![\w./-])(?:[A-Z][a-z]+){2,}\b"
    r"|(?<!\S)--[a-z][\w-]+"
)
_NUMBER = r"(?<![\w./:#,-])\d+(?:[,_'\u202f]\d{3})*(?:\.\d+)?(?![\w/]|[.:,-]\d)"
_LITERAL = re.compile(rf"{_CODE}|{_QUOTATION}|(?P<name>{_NAME})|(?P<number>{_NUMBER})")
_ESCAPED_BREAK = re.compile(r"\\[nrt]")
"""A line break or tab as it is written in code: its letter begins no name."""
_COMMON_NAMES = frozenset({"node.js", "next.js", "vue.js", "three.js", "d3.js"})
_LEAST_DIGITS, _LONGEST_NUMBER = 3, 40
"""Shorter whole numbers are mostly counts of what the text itself lists. What is longer is no number."""
_AT_END = ".,;:!?)"
_MOST_UNKNOWN = 200
"""Each is looked for in the whole source: milliseconds for a million characters. No honest text has more."""


def mark_unconfirmed(text: str, source: SourceText) -> str:
    """Returns the text with `UNCONFIRMED` behind each literal that the source does not have, the first 200 of them."""
    out: list[str] = []
    end = unknown = 0
    found: dict[str, bool] = {}
    for literal, stop in _find_literals(text):
        if literal not in found:
            found[literal] = source.has(literal)
            unknown += not found[literal]
        if unknown > _MOST_UNKNOWN:
            break
        if not found[literal] and not text.startswith(UNCONFIRMED, stop):
            out += [text[end:stop], UNCONFIRMED]
            end = stop
    return "".join((*out, text[end:]))


def count_unconfirmed(replacements: Iterable[Replacement]) -> int:
    """Counts the literals that are marked as unconfirmed in the summaries that these replacements show."""
    shown = (item.message for each in replacements for item in each.shown_items if isinstance(item, Substitute))
    return sum(get_text(message).count(UNCONFIRMED) for message in shown if message.origin == "tenfold")


def find_literals(text: str) -> list[str]:
    """Returns the literals of a text: code and quotations without their marks, names, and numbers."""
    return [literal for literal, _ in _find_literals(text)]


def _find_literals(text: str) -> Iterator[tuple[str, int]]:
    """Yields each literal and where it ends. A line with an odd number of backticks has no certain code."""
    start = 0
    for line in text.split("\n"):
        whole = line if line.count("`") % 2 == 0 else line.replace("`", " ")
        for match in _LITERAL.finditer(_ESCAPED_BREAK.sub("  ", whole)):
            kind, words = str(match.lastgroup), match[match.lastgroup or 0]
            literal = words.rstrip(_AT_END) if kind == "name" else words
            if _is_literal(kind, literal):
                yield literal, start + match.end() - (len(words) - len(literal))
        start += len(line) + 1


def _is_literal(kind: str, literal: str) -> bool:
    if kind == "number":
        digits = literal.lstrip("0")
        return len(literal) <= _LONGEST_NUMBER and (not literal.isdigit() or len(digits) >= _LEAST_DIGITS)
    if kind == "name":
        return len(literal) > 2 and literal.lower() not in _COMMON_NAMES
    if kind == "code":
        return literal == literal.strip() and re.search(r"\w{2}", literal) is not None
    return len(literal.split()) > 1


# -- what confirms it --------------------------------------------------------------------------------------------------

_QUOTES = str.maketrans(dict.fromkeys('\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019`"', "'"))
_PLACEHOLDER = re.compile(
    r"\.{3,}|\u2026|\*+|<[^<>]*>|\{[^{}]*\}|\[[^\[\]]{0,400}\]"
    r"|(?<![\w.=/-])[A-Z][A-Z_]*(?![\w.=/-])|(?<![^\W_])(?:nn|NN)(?![^\W_])"
)
"""What stands for something else in code, in a path, or in a quotation."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_LINE_NUMBER = re.compile(r"(?<=\w):\d+(?:[:-]\d+)?\Z|(?<=\w)#L\d+\Z")
_LINE_START = re.compile(r"^[ \t]*\d{1,6}(?:\u2192|\t|:(?!\d)| ?\|)", re.MULTILINE)
"""The number that a tool sets before a line."""
_HASH = re.compile(r"[0-9a-f]{7,40}")
_WORD = re.compile(r"\w+")
_MAX_GAP = 6
"""Words that may stand between two words of code: types, quotation marks and arguments that a summary leaves out."""
_DIGITS = re.compile(r"\d+(?:[,_'.\u202f]\d+)*")
_MARKED = re.compile(rf"(?<!\S)\S{{1,400}}{re.escape(UNCONFIRMED)}")


class SourceText:
    """The text that a summary was made of, arranged so that a literal is found in it in any usual spelling."""

    def __init__(self, text: str) -> None:
        """Takes the whole text. What an earlier summary has marked as unconfirmed confirms nothing."""
        self.text = _MARKED.sub(" ", text)

    def has(self, literal: str) -> bool:
        """Tells whether the source has a literal, as it is or in another spelling of the same.

        Other spellings are: other quotation marks, spaces, case or separators; a path from another directory on, or
        from its directory and its name; a name without what others of its kind have before or behind; `a/b` and
        `{a,b}` for both; code with types, quotation marks or arguments left out; placeholders; a rounded number.
        """
        if re.fullmatch(_NUMBER, literal):
            return self._has_number(literal)
        braces = list(_BRACES.finditer(literal))
        if len(braces) == 1:  # of several, the combinations could be endless
            before, after = literal[: braces[0].start()], literal[braces[0].end() :]
            return all(self.has(f"{before}{each.strip()}{after}") for each in braces[0][1].split(","))
        folded = _fold(literal)
        if has_words(folded, self._flat, joints="") or self._has_name(folded):
            return True
        if "/" in literal and "://" not in literal and (self._has_joined_path(folded) or self._has_each(folded)):
            return True
        parts = [part.strip() for part in _PLACEHOLDER.split(literal) if _WORD.search(part)]
        if parts and parts != [literal]:
            return all(map(self.has, parts))
        is_code = "(" in literal or len(literal.split()) > 1
        return is_code and self._has_code(folded)

    def _has_name(self, name: str) -> bool:
        """Tells whether a single name occurs: in longer ones, as a short hash, a version, a method of a class."""
        name = re.sub(r"^v(?=\d)", "", name.removesuffix("()").rstrip("_-.*"))
        if any(map(str.isspace, name)) or not name:
            return False
        if _HASH.fullmatch(name) and re.search(rf"(?<![0-9a-f]){name}", self._flat):
            return True
        spelled = _join_spelling(name)
        if spelled in self._spellings or spelled.removesuffix("s") in self._spellings:
            return True
        if len(spelled) > 5 and any(joint + name in self._flat or name + joint in self._flat for joint in "_-."):
            return True
        parts = name.split(".")
        return len(parts) > 1 and "/" not in name and all(p.isidentifier() and has_words(p, self._flat) for p in parts)

    def _has_joined_path(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        return bool(directory and name) and has_words(directory, self._flat, joints="") and self._has_alone(name)

    def _has_alone(self, name: str) -> bool:
        return re.search(rf"(?<![\w./-]){re.escape(name)}(?!\w)", self._flat) is not None

    def _has_each(self, literal: str) -> bool:
        """Tells whether `a/b` names two things that the source both has: names, or one name with two endings."""
        first, *others = literal.split("/")
        stem = first.rpartition(".")[0]
        forms = [first, *(stem + each if each.startswith(".") else each for each in others)]
        return all(re.search(r"[._-]", form) and has_words(form, self._flat, joints="") for form in forms)

    def _has_code(self, code: str) -> bool:
        """Tells whether the words of code stand one after the other, with at most a few others in between."""
        words = _WORD.findall(code)
        if not words or not all(word in self._places for word in words):
            return False
        ends = set(self._places[words[0]])
        for word in words[1:]:
            places = self._places[word]
            ends = {end + step for end in ends for step in range(1, _MAX_GAP + 2) if end + step in places}
        return bool(ends)

    def _has_number(self, number: str) -> bool:
        """Tells whether the source has a number that this one is, rounded to its own last digit that is not 0."""
        value = Decimal(re.sub(r"[,_'\u202f]", "", number))
        half = Decimal(5).scaleb(int(value.normalize().as_tuple().exponent) - 1)
        scales = _SCALES if "." in number else _SCALES[:1]
        return any(self._has_between((value - half) * scale, (value + half) * scale) for scale in scales)

    def _has_between(self, least: Decimal, most: Decimal) -> bool:
        at = bisect_left(self._numbers, least)
        return at < len(self._numbers) and self._numbers[at] <= most

    @cached_property
    def _flat(self) -> str:
        return _fold(_LINE_START.sub("", self.text))

    @cached_property
    def _spellings(self) -> frozenset[str]:
        """The names of the source without their separators, and the parts between their hyphens and slashes."""
        names = set(re.findall(r"[\w./-]+", self._flat))
        parts = {part for name in names for part in re.split(r"[/-]", name)}
        return frozenset(map(_join_spelling, names | parts))

    @cached_property
    def _places(self) -> Mapping[str, frozenset[int]]:
        """Where each word of the source stands, counted in words."""
        places: dict[str, set[int]] = {}
        for place, word in enumerate(_WORD.findall(self._flat)):
            places.setdefault(word, set()).add(place)
        return {word: frozenset(found) for word, found in places.items()}

    @cached_property
    def _numbers(self) -> Sequence[Decimal]:
        found: set[Decimal] = set()
        for digits in set(_DIGITS.findall(self.text)):
            found.update(_read_number(digits) if len(digits) <= _LONGEST_NUMBER else ())
        return sorted(found)


_SCALES = (Decimal(1), Decimal(1000), Decimal(1_000_000), Decimal("0.01"), Decimal(100))
"""A summary may give a number with decimals in thousands or millions, of a share in per cent, of cents in euros."""


def _read_number(digits: str) -> Iterator[Decimal]:
    """Yields what digits with separators may mean: a comma or a full stop groups thousands, or begins the decimals."""
    for group, point in ((",_'\u202f", "."), ("._'\u202f", ",")):
        text = "".join(c for c in digits if c not in group).replace(point, ".")
        if text.count(".") < 2:
            yield Decimal(text)
    yield from (Decimal(part) for part in re.split(r"\D", digits) if part)


def _fold(text: str) -> str:
    """Returns a text without what differs between spellings: case, quotation marks, white space, slashes."""
    text = _LINE_NUMBER.sub("", _ESCAPED_BREAK.sub(" ", text)).translate(_QUOTES).replace("\\", "/").lower()
    return collapse_spaces(text.removeprefix("./"))


def _join_spelling(name: str) -> str:
    return name.replace("_", "").replace("-", "")


def build_source(
    items: Iterable[tuple[int, Message]], facts: Iterable[Fact], earlier: str, wishes: Sequence[str] = ()
) -> SourceText:
    """Builds the source: messages with calls and reasoning, facts, the earlier summary, and the caller's wishes."""
    texts: list[str] = [earlier, *wishes]
    for number, message in items:
        texts += [f"message {number}", get_text(message)]
        texts += [part.text for part in message.parts if isinstance(part, Thinking)]
        for call in get_tool_calls(message):
            arguments = (
                call.arguments.replace("\\n", "\n").replace("\\\\", "\\").replace("\\/", "/").replace('\\"', '"')
            )
            if "\\u" in arguments:  # as some programs write all but ASCII
                arguments = "\n".join(map(str, interpret_call(call).arguments.values())) or arguments
            texts.append(f"{call.name}\n{arguments}")
    texts += [fact.label for fact in facts]
    texts += [fact.content for fact in facts if isinstance(fact, ChangedFile)]
    return SourceText(strip_escapes("\n".join(texts)))
