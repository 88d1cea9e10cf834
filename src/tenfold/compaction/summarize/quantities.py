"""Finds numbers with their units, dates and times, and compares those of a summary with those of its source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from tenfold.compaction.summarize.negation import find_stems, stem_word

_UNITS: dict[str, tuple[str, float]] = {
    name: (kind, size)
    for kind, size, names in (
        ("time", 1e-9, "ns"),
        ("time", 1e-6, "us µs microsecond microseconds"),
        ("time", 1e-3, "ms msec millisecond milliseconds"),
        ("time", 1, "s sec secs second seconds sekunden secondes segundos secondi"),
        ("time", 60, "min mins minute minutes minuten minutos minuti"),
        ("time", 3_600, "h hr hrs hour hours stunden heures horas ore"),
        ("time", 86_400, "d day days tage tagen jours días dias giorni"),
        ("time", 604_800, "week weeks wochen semaines semanas settimane"),
        ("time", 2_592_000, "month months monate monaten mois meses mesi"),
        ("time", 31_536_000, "year years jahre jahren ans années años anos anni"),
        ("size", 1, "b byte bytes"),
        ("size", 1e3, "kb kib kilobytes"),
        ("size", 1e6, "mb mib megabytes megabyte"),
        ("size", 1e9, "gb gib gigabytes gigabyte"),
        ("size", 1e12, "tb tib terabytes terabyte"),
        ("share", 1, "% percent pct prozent"),
        ("dollars", 1, "$ dollar dollars usd"),
        ("euros", 1, "€ euro euros eur"),
        ("pounds", 1, "£ gbp"),
    )
    for name in names.split()
}
_MAGNITUDES = {"k": 1e3, "m": 1e6, "bn": 1e9, "g": 1e9, "thousand": 1e3, "million": 1e6, "billion": 1e9, "t": 1e12}
_NUMBER_WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "twenty": 20,
}  # fmt: skip
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})\b(?: (\w+))?", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?P<currency>[$\u20ac\u00a3])?(?<!\d)(?P<number>\d{1,3}(?:[,\u00a0\u202f']\d{3}){1,4}(?!\d)|\d{1,15}(?!\d))"
    r"(?P<decimals>\.\d{1,15})?"
    r"(?P<unit>\s?(?:%|[$\u20ac\u00a3])|[ -]?[^\W\d_]+)?(?P<next> [^\W\d_]+)?"
)
_IN_NAME = re.compile(r"[\w#/:@.+-]\Z")
_NAME_GOES_ON = re.compile(r"[_/#@]|:(?=\S)|[^\W\d_]+\d")
_RANGE = re.compile(r"(?<=\d)(\s?(?:-|\u2013|to|bis|or|and)\s?)(?=\d[\d.,]*\s?(?P<unit>%|[^\W\d_]+))")
_HEDGES = frozenset(
    {"about", "around", "roughly", "approximately", "approx", "approx.", "some", "nearly", "almost", "over", "under"}
    | {"circa", "ca", "ca.", "etwa", "rund", "~", "\u2248", "than", "up to", "close to"}
)
"""Words before a number that is only approximate."""
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august"),
            *("sep sept september", "oct october", "nov november", "dec december"),
        ),
        1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    r"(?<!\d)(?P<y1>\d{4})[-/](?P<m1>\d\d)[-/](?P<d1>\d\d)(?!\d)|(?<!\d)(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})(?!\d)"
    rf"|\b(?P<d3>\d{{1,2}})(?:st|nd|rd|th)? (?P<m3>{_MONTH})\b\.?,?(?: (?P<y3>\d{{4}}))?"
    rf"|\b(?P<m4>{_MONTH})\.? (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<y4>\d{{4}}))?",
    re.IGNORECASE,
)
_TIME = re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
_LINE_STEM = stem_word("lines")
_LINE_RANGE = re.compile(r"(?<![\d.])(\d{1,6})\s?[-\u2013]\s?(\d{1,6})(?![\d.])")
_OMITTED = re.compile(r"[\d,]+ lines?\b[^.;]{0,40}\bleft out\b")
"""What a writer says of its own input: lines that the transcript leaves out are in no message."""
_RARE_DIGITS = 5
"""A number of so many digits that the source gives is hardly there by chance."""
_BESIDE = 20
"""How near, in characters, a number and its label stand together."""
_NEAR = 150
"""How far from a number, in characters, a word of the sentence has to stand."""
_OWN_COUNTS = frozenset(map(float, range(13)))
_OWN_COUNTS_OF = frozenset(map(float, range(21)))
"""What a model may count by itself, and what if it says of what."""
_COUNTED = find_stems("failed passed errors warnings skipped")
"""What only programs count."""
_BINARY_MARGIN = 0.075
_FEW = 2
"""With more different numbers beside it, a word has no certain one."""
_HASH_CHARS = 7
_CENT = 0.01
_TOLERANCE = 0.05
"""How far a number may be off that is said to be approximate."""
_LINKS = frozenset(
    (
        "is",
        "was",
        "are",
        "were",
        "of",
        "only",
        "now",
        "still",
        "hold",
        "holds",
        "cost",
        "costs",
        "amount",
        "amounts",
        "set",
        "to",
    )
)
"""Words between a label and its number."""
_OPENERS = frozenset(("to", "from", "now", "instead of", "by", "was", "->", "\u2192", "=>"))
"""Words before a number that say what something became or was, not of what it is the number."""
_BEFORE_CHARS = 60


class Quantity(NamedTuple):
    """A number of a text: its value, its unit's kind and size, what was written, and the words next to it."""

    value: float
    kind: str
    size: float
    written: str
    label: str
    after: str
    is_approximate: bool
    step: float
    offset: int


def find_quantities(text: str, *, in_names: bool = False) -> Iterator[Quantity]:
    """Yields the numbers of a text. Those that are part of a name count with `in_names` only."""
    if not in_names:
        text = _TIME.sub(lambda m: " " * len(m[0]), _DATE.sub(lambda m: " " * len(m[0]), text))
    range_units = {match.start(): match["unit"] for match in _RANGE.finditer(text)}
    for match in _NUMBER.finditer(text):
        start, end = match.span("number")[0], max(match.end("number"), match.end("decimals"))
        before = text[max(start - _BEFORE_CHARS, 0) : match.start()]
        is_in_name = _IN_NAME.search(before) or _NAME_GOES_ON.match(text, end)
        if in_names or not is_in_name or (before.endswith("-") and before[-2:-1].isdigit()):
            yield _build_quantity(match, before, range_units.get(end, ""))
    if in_names:
        for match in _NUMBER_WORD.finditer(text):
            number = str(_NUMBER_WORDS[match[1].lower()])
            yield Quantity(float(number), "", 1.0, number, "", match[2] or "", False, 1.0, match.start())


def _build_quantity(match: re.Match[str], before: str, range_unit: str) -> Quantity:
    number, decimals = re.sub(r"\D", "", match["number"]), match["decimals"] or ""
    value, step = float(number + decimals), 10.0 ** -(len(decimals) - 1) if decimals else 1.0
    unit = (match["unit"] or "").strip(" -").lower()
    following = (match["next"] or "").strip().lower()
    if unit in _MAGNITUDES and unit not in {"t", "g"} and not (unit == "m" and following in _UNITS):
        factor = _MAGNITUDES[unit]
        value, step = value * factor, step * factor
        unit, following = following, ""
    if unit in {"business", "working", "calendar"}:
        unit = following
    kind, size = _UNITS.get(unit) or _UNITS.get(range_unit.lower()) or _UNITS.get(match["currency"] or "") or ("", 1.0)
    label, is_approximate = _find_label(before), _has_at_end(before, _HEDGES)
    written = (match["currency"] or "") + match["number"] + decimals + (match["unit"] or "" if kind or step > 1 else "")
    return Quantity(value, kind, size, written, label, "" if kind else unit, is_approximate, step, match.start())


def _has_at_end(before: str, words: frozenset[str]) -> bool:
    last = before.lower().replace("(", " ").split()[-2:]
    return bool(last) and (last[-1] in words or " ".join(last) in words or before[-1:] in words)


def _find_label(before: str) -> str:
    """Returns the word that says what a number is of, "" if there is none: in "price: 3" or "the price is 3"."""
    words = before.rstrip(" \t\"'`$\u20ac\u00a3").split()
    if words and words[-1][-1] in "=:" and not words[-1][-2:-1].isalnum() and words[-1][-2:-1] not in ("", "`", "_"):
        return ""  # the colon follows a quotation or a remark
    if words and words[-1][-1] in "=:":
        words[-1] = words[-1].rstrip("=:")
        words = words if words[-1] else words[:-1]
    elif not words or words[-1].lower() not in _LINKS or _is_opener(words):
        return ""
    while words and words[-1].lower() in _LINKS:
        words.pop()
    label = re.split(r"[\"'`({\[,]", words[-1].rstrip("\"'`"))[-1].lower() if words else ""
    return "" if re.search(r"\d", label) or not re.search(r"[^\W\d]", label) else label


def _is_opener(words: Sequence[str]) -> bool:
    """Tells whether a number after these words is what something became: "raised to", but not "set to"."""
    last = [word.lower() for word in words[-2:]]
    return last[-1] != "was" and (last[-1] in _OPENERS or " ".join(last) in _OPENERS) and last[0] != "set"


def find_dates(text: str) -> list[tuple[str, tuple[int, int, int]]]:
    """Returns the dates in a text, as written and as year (0 if unknown), month and day."""
    out = []
    for match in _DATE.finditer(text):
        number = next(n for n in "1234" if match[f"d{n}"])
        month = match[f"m{number}"].lower()
        year = int(match[f"y{number}"] or 0)
        out.append((match[0], (year, _MONTHS.get(month) or int(month), int(match[f"d{number}"]))))
    return out


def find_times(text: str) -> list[tuple[str, int]]:
    """Returns the times of day in a text, as written and in minutes."""
    return [(match[0], int(match[1]) * 60 + int(match[2])) for match in _TIME.finditer(text)]


class QuantityIndex:
    """The numbers, dates and times of a source, and what stands next to them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._by_value: dict[float, list[Quantity]] = {}
        self._by_label: dict[str, set[float]] = {}
        self._by_word: dict[str, set[float]] = {}
        self._amounts: dict[str, set[float]] = {}
        for each in find_quantities(text, in_names=True):
            self._by_value.setdefault(each.value, []).append(each)
            if each.kind:
                self._amounts.setdefault(each.kind, set()).add(each.value * each.size)
            for label in find_stems(each.label):
                self._by_label.setdefault(label, set()).add(each.value)
            for word in find_stems(each.after):
                self._by_word.setdefault(word, set()).add(each.value)
        self._sorted = sorted(self._by_value)
        self._dates = {date for _, date in find_dates(text)}
        self._times = {minutes for _, minutes in find_times(text)}

    @cached_property
    def _stems(self) -> frozenset[str]:
        return find_stems(self._text)

    def find_unknown(self, sentence: str, stems: frozenset[str]) -> list[str]:
        """Returns the numbers, dates and times of a sentence that the source does not hold, as written.

        `stems` are those of all its words: a number counts only where it stands near one of them.
        """
        unknown = [written for written, date in find_dates(sentence) if not self._has_date(date)]
        unknown += [written for written, minutes in find_times(sentence) if not self._has_time(minutes)]
        if any(map(self._is_line_range, _LINE_RANGE.finditer(sentence))):
            stems |= {_LINE_STEM}
        claims = [each for each in find_quantities(sentence) if not _OMITTED.match(sentence, each.offset)]
        values = {each.value for each in claims}
        return unknown + [each.written for each in claims if not self._has_quantity(each, stems, values)]

    def _is_line_range(self, match: re.Match[str]) -> bool:
        """Tells whether both ends of a range are numbers that a tool set before a line."""
        ends = (self._by_value.get(float(match[1]), ()), self._by_value.get(float(match[2]), ()))
        return all(any(map(self._is_line_number, found)) for found in ends)

    def _has_date(self, date: tuple[int, int, int]) -> bool:
        year, month, day = date
        return any((m, d) == (month, day) and (not year or not y or y == year) for y, m, d in self._dates)

    def _has_time(self, minutes: int) -> bool:
        return not self._times.isdisjoint((minutes, minutes - 720, minutes + 720))  # in the morning or afternoon

    def _has_quantity(self, claim: Quantity, stems: frozenset[str], values: Collection[float]) -> bool:
        found = self._by_value.get(claim.value, [])
        if not claim.kind and not claim.label and claim.value in (_OWN_COUNTS_OF if claim.after else _OWN_COUNTS):
            return not self._is_contradicted(claim, values)
        unit = (claim.kind, claim.size)
        same = [each for each in found if not (claim.kind and each.kind) or (each.kind, each.size) == unit]
        is_rare = sum(map(str.isdigit, claim.written)) >= _RARE_DIGITS
        if same and (is_rare or self._is_near(same, stems)):
            if self._is_of_another_unit(claim, same):
                return False
            return not self._is_contradicted(claim, values)
        cents = self._by_value.get(round(claim.value / _CENT), []) if claim.step == _CENT else []
        if self._is_converted(claim) or (cents and self._is_near(cents, stems)):  # programs count money in cents
            return True
        is_short_hash = len(claim.written) >= _HASH_CHARS and re.search(
            rf"(?<!\w){re.escape(claim.written)}", self._text
        )
        return not found and (bool(is_short_hash) or self._is_rounded(claim))

    def _is_near(self, found: Sequence[Quantity], stems: frozenset[str]) -> bool:
        """Tells whether the number stands near a word of the sentence; else it is about something else."""
        words = frozenset(stem for stem in stems if not stem.isdigit())
        if _LINE_STEM in words and any(self._is_line_number(each) for each in found):
            return True
        return len(words) < _FEW or any(
            words & find_stems(self._text[max(each.offset - _NEAR, 0) : each.offset + _NEAR]) for each in found
        )

    def _is_line_number(self, quantity: Quantity) -> bool:
        """Tells whether a number is one that a tool set before a line, or behind the name of a file."""
        end = quantity.offset + len(quantity.written)
        return self._text[end : end + 1] in {":", "\t", "\u2192", "|"} or self._text[quantity.offset - 1 :][:1] == ":"

    def _is_converted(self, claim: Quantity) -> bool:
        """Tells whether the source gives the same amount in another unit. A kilobyte may have 1,000 or 1,024 bytes."""
        if claim.kind == "share" and round(claim.value / 100, 9) in self._by_value:
            return True
        amount = claim.value * claim.size
        margin = (
            amount * _BINARY_MARGIN if claim.kind == "size" else claim.step * claim.size / 2 * (claim.value % 1 > 0)
        )
        return any(abs(each - amount) <= margin + amount * 1e-9 for each in self._amounts.get(claim.kind, ()))

    def _is_rounded(self, claim: Quantity) -> bool:
        margin = claim.value * _TOLERANCE if claim.is_approximate else claim.step / 2
        return any(
            abs(value - claim.value) <= margin and (claim.is_approximate or value != int(value) or claim.step > 1)
            for value in self._sorted
        )

    def _is_of_another_unit(self, claim: Quantity, found: Sequence[Quantity]) -> bool:
        """Tells whether the source gives the number with units only, and never names what the sentence counts."""
        is_count = bool(find_stems(claim.after)) and not claim.kind and claim.value not in _OWN_COUNTS_OF
        return is_count and all(each.kind for each in found) and not find_stems(claim.after) & self._stems

    def _is_contradicted(self, claim: Quantity, values: Collection[float]) -> bool:
        """Tells whether the source gives other numbers, and never this one, right beside the same word.

        `values` are those of the sentence: it may give the other numbers too.
        """
        beside = [self._by_label.get(stem, set()) for stem in find_stems(claim.label)]
        beside += [self._by_word.get(stem, set()) for stem in find_stems(claim.after) & _COUNTED]
        is_other = any(
            0 < len(known) <= _FEW and claim.value not in known and not known.issubset(values) for known in beside
        )
        return is_other and not self._is_open(claim) and not self._is_beside(claim)

    def _is_beside(self, claim: Quantity) -> bool:
        """Tells whether the source gives the number right beside its label, in whatever form."""
        stems = find_stems(claim.label)
        return bool(stems) and any(
            stems <= find_stems(self._text[max(each.offset - _BESIDE, 0) : each.offset + _BESIDE])
            for each in self._by_value.get(claim.value, ())
        )

    def _is_open(self, claim: Quantity) -> bool:
        """Tells whether the source names the number without saying what of: as what something was changed to."""
        return any(
            (words := self._text[max(each.offset - 20, 0) : each.offset].split()) and _is_opener(words)
            for each in self._by_value.get(claim.value, ())
        )
