"""Finds what is wrong with a sentence of a summary: what its source does not hold, and what its source contradicts.

A sentence is compared with the source by what it claims: names and identifiers, numbers with their units, code and
quotations, commands that were run, files that were changed, how something ended, and what the user said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.compaction.facts.shell import is_read_only
from tenfold.compaction.summarize.evidence import (
    ESCAPED_BREAK,
    USER_NOUN,
    USER_WORD,
    CommandOutcome,
    SourceText,
    Statement,
    count_shared,
)
from tenfold.compaction.summarize.literals import find_quotations, find_spans, locate_quotations, mask_literals
from tenfold.compaction.summarize.negation import Clause, detect_language, find_stems, read_clauses, stem_word
from tenfold.core.text.excerpts import Keep, collapse_spaces, excerpt, has_words

ClaimKind = Literal["unknown", "not_run", "not_changed", "outcome", "user", "contradicted"]


class ClaimError(Struct, frozen=True):
    """What is wrong with a sentence. `detail` names it in words that a model can act on."""

    kind: ClaimKind
    detail: str


_MAX_SENTENCE_CHARS = 2_000
"""Of a longer sentence, which is no prose, only the names are checked."""


def find_claim_errors(sentence: str, source: SourceText) -> list[ClaimError]:
    """Returns what is wrong with a sentence; [] if nothing in it is known to be wrong."""
    errors = [ClaimError("unknown", word) for word in find_claims(sentence) if not source.has_word(word)]
    if len(sentence) > _MAX_SENTENCE_CHARS:
        return errors
    plain = _CODE.sub("_", sentence)
    is_proposed = bool(_NOT_DONE.search(mask_literals(sentence)))
    errors += [
        ClaimError("unknown", span)
        for span in find_spans(sentence)
        if not (is_proposed and _PROGRAM.match(span)) and not source.has_span(span)
    ]
    quotations = find_quotations(sentence)
    errors += [ClaimError("unknown", f'"{each}"') for each in quotations if not source.has_quotation(each)]
    if any(map(str.isdigit, told := _without_claims(plain))):
        errors += [ClaimError("unknown", each) for each in source.quantities.find_unknown(told, find_stems(sentence))]
    if swapped := source.find_swapped_change(_join_code(sentence).replace("`", "")):
        errors.append(ClaimError("contradicted", f"{swapped}, but it was the other way round"))
    errors += [ClaimError("not_run", each) for each in _find_run_commands(sentence) if not source.has_call(each)]
    errors += _check_changed_files(sentence, source)
    errors += _check_outcomes(sentence, source)
    errors += _check_statements(sentence, source)
    return list(dict.fromkeys(errors))


# -- names, code and quotations ----------------------------------------------------------------------------------------

_EXTENSIONS = (
    "py|pyi|js|jsx|ts|tsx|mjs|cjs|json|jsonl|md|rst|txt|toml|yaml|yml|ini|cfg|lock|sh|bash|rs|go|java|kt|c|h|cc|cpp|hpp|cs|rb|php|sql|html|css|scss"
    "|vue|svelte|xml|csv|tsv|ipynb|env|log|diff|patch|proto|graphql|prisma|swift|scala|lua|r|pl|ex|exs|dockerfile|tf|gradle"
)
_CLAIM = re.compile(
    r"https?://[^\s)\]>\"'`|]+"
    rf"|(?<![\w@./~-])(?:~/|\.{{0,2}}/)?(?:[\w@.+-]+/)+[\w@.+-]*\.(?:{_EXTENSIONS})\b(?![\w/])"
    r"|(?<![\w./~<:-])(?:~/|/)(?:[\w@.+-]+/)+[\w@.+-]+"
    rf"|(?<![\w@./~-])[a-z_][\w-]*(?:\.[\w-]+)*\.(?:{_EXTENSIONS})\b(?![\w/(])"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"
    r"|(?<![\w.])v?\d+\.\d+\.\d+(?:[-+][\w.]+)?\b|\b[\w.+-]{1,64}@[\w-]+\.[\w.-]+\b|\b[A-Z]{2,8}-?\d{3,}\b"
    r"|#[A-Z]?\d{3,}\b|\b0x[0-9A-Fa-f]{4,}\b"
    r"|(?<![\w./-])[A-Za-z]\w*_\w+\b(?:\(\))?|(?<![\w./-])[a-z]+\d*[A-Z]\w*\b(?:\(\))?|(?<![\w./-])(?:[A-Z][a-z]+){2,}\b|(?<!\S)--[a-z][\w-]+"
)
_COMMON_NAMES = frozenset({"node.js", "next.js", "vue.js", "three.js", "d3.js", "e.g", "i.e"})


def find_claims(line: str) -> list[str]:
    """Returns the paths and identifiers named in a line: URLs, file paths, hashes, versions, ids, addresses."""
    line = ESCAPED_BREAK.sub("  ", line)
    found = (match.group().rstrip(".,;:!?)") for match in _CLAIM.finditer(line))
    return [word for word in dict.fromkeys(found) if word.lower() not in _COMMON_NAMES and len(word) > 2]


def _without_claims(sentence: str) -> str:
    """Blanks paths and identifiers, whose digits are no numbers, and references to messages, such as [12]."""
    blanked = _CLAIM.sub(lambda match: "_" if not re.fullmatch(r"\d+", match[0]) else match[0], sentence)
    return _REFERENCE.sub("_", blanked)


_REFERENCE = re.compile(r"\[\d+(?:\s?(?:-|\u2013|to|,)\s?\d+)*\]|\(\d+\)(?=[.,;]?\s*$)")


# -- what was done -----------------------------------------------------------------------------------------------------

_RUN_SPAN = re.compile(
    r"\b(?:ran|re-?ran|executed|invoked)\b(?:(?!\b(?:with|that|gave|raised|failed)\b)[^`.;,]){0,30}`([^`\n]{1,300})`"
    r"|`([^`\n]{1,300})` (?:was|were|has been) (?:run|executed)\b",
    re.IGNORECASE,
)
_PROGRAMS = (
    "git|npm|npx|yarn|pnpm|pip|pytest|python3?|node|cargo|go|make|docker|kubectl|terraform|uv|ruff|mypy|rm|curl|ssh"
    "|systemctl|psql|gh"
)
_PROGRAM = re.compile(rf"(?:{_PROGRAMS})\s")
_NO_COMMAND = re.compile(r"[\w.]+\([^()]*\)\Z|[\w.]*(?:Error|Exception|Warning)\b")
"""Code beside "ran" that is no command: the call of a function, an error message."""
_RUN_WORDS = re.compile(rf"\b(?:ran|re-?ran|executed)\s+((?:{_PROGRAMS})\b(?: [\w./:=@-]+)*)", re.IGNORECASE)
_WORDS_AFTER_COMMAND = re.compile(
    r" (?:and|to|in|on|which|with|after|before|again|for|successfully|but|then|at|once|twice)\b.*"
)
_NOT_DONE = re.compile(
    r"\b(?:not|n't|never|no|without|should|must|will|would|could|next|plans?|todo|if)\b", re.IGNORECASE
)
_CHANGED = re.compile(
    r"\b(?:edited|modified|changed|updated|rewrote|rewritten|added|created|deleted|removed|patched|renamed|fixed|wrote)\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w@./~+-]*[\w-]\.[A-Za-z]\w{0,8}\b")


def _find_run_commands(sentence: str) -> Iterator[str]:
    """Yields the commands that a sentence says were run, by someone else than the user."""
    if USER_WORD.search(sentence) or _NOT_DONE.search(mask_literals(sentence)):
        return
    for groups in _RUN_SPAN.findall(sentence):
        if not _NO_COMMAND.match(span := "".join(groups)):
            yield span
    for words in _RUN_WORDS.findall(sentence):
        yield " ".join(_WORDS_AFTER_COMMAND.sub("", words).split()[:3])


def _check_changed_files(sentence: str, source: SourceText) -> list[ClaimError]:
    """Checks that one of the files of a clause about a change is one that was changed."""
    if not source.written_files or USER_WORD.search(sentence) or _NOT_DONE.search(mask_literals(sentence)):
        return []
    errors = []
    for clause in re.split(r"[;:()]", mask_literals(sentence, code=False)):
        paths = [word for word in find_claims(clause) if "://" not in word and _PATH.fullmatch(word)]
        if paths and _CHANGED.search(mask_literals(clause)) and not any(map(source.is_in_change, paths)):
            changed = ", ".join(source.written_files[-8:])
            errors.append(ClaimError("not_changed", f"{paths[0]}: no change of it is recorded; changed were {changed}"))
    return errors


# -- how it ended ------------------------------------------------------------------------------------------------------

_LEAD = r"(?:(?:still|now|all|both|also|then|always|never|have|has|had|did|does|do|not|once|again|later)\s){0,8}"
_JOINT = r"(?:that|though|because|since|while|when|and|but|where|which)\b"
_SUBJECT_WORD = rf"(?:`[^`]{{1,300}}`|(?!{_JOINT})[^\s.;,`]{{1,100}})"
_ENDING = re.compile(
    rf"(?P<subject>{_SUBJECT_WORD}(?: {_SUBJECT_WORD}){{0,7}}?)\s"
    rf"(?P<lead>{_LEAD})"
    r"(?:(?P<good>pass(?:es|ed)?|succeed(?:s|ed)?|compiles?|(?:(?:was|were) )?[a-z]+ed successfully"
    r"|(?:is|are|was|were|went|came out) (?:now |all |still )?(?:green|successful|passing|clean))"
    r"|(?:fail(?:s|ed)?|crash(?:es|ed)|(?:is|are|was|were) (?:now |all |still )?(?:red|failing|broken)))\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(r"\b(?:still|now|pass|passes|fail|fails|is|are|succeeds?|compiles?)\b", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W\d_]{3,}")
_OPEN_SUBJECT = re.compile(
    r"\b(?:no|none|nothing|neither|not|never|cannot|any|if|when|once|until|unless|whether|some|each|every)\b",
    re.IGNORECASE,
)
"""Words in a subject that names no command that ended: there was none, or it is one that may come."""
_CODE, _JOINER = re.compile(r"`[^`\n]+`"), "\x01"
"""Code, and what stands for the spaces in it, so that no part of it is read as a sentence."""


def _join_code(sentence: str) -> str:
    return _CODE.sub(lambda code: code[0].replace(" ", _JOINER), sentence)


def _check_outcomes(sentence: str, source: SourceText) -> list[ClaimError]:
    """Checks "X passed" and "X failed" against how the commands ended that X names."""
    errors = []
    told = re.sub(r"n['\u2019]t\b", " not", mask_literals(sentence, code=False))
    for match in _ENDING.finditer(_join_code(told)):
        subject = match["subject"].replace(_JOINER, " ")
        if _OPEN_SUBJECT.search(mask_literals(subject)):
            continue
        is_good = bool(match["good"]) != bool(re.search(r"\b(?:not|never)\b", match["lead"]))
        is_present = bool(_PRESENT.search(match.group()[len(match["subject"]) :]))
        share = _MOST_WORDS if is_good or is_present else 1.0  # what failed once may have been mended and run again
        for outcome in _find_same(_match_outcomes(subject, source.outcomes, share)):
            if outcome.is_ok is None or outcome.is_ok == is_good:
                continue
            if not is_good and outcome.has_failed and not is_present:
                continue
            ended = "succeeded" if outcome.is_ok else "failed"
            command = excerpt(outcome.command.partition("\n")[0], 100, Keep.JOINED_ENDS)
            errors.append(
                ClaimError("outcome", f'"{match.group().replace(_JOINER, " ").strip()}", but {command} {ended}')
            )
    return errors


_MOST_WORDS = 0.5


def _match_outcomes(subject: str, outcomes: Sequence[CommandOutcome], share: float) -> list[CommandOutcome]:
    """Returns the commands that a subject names: by code in backticks, else by at least `share` of its words."""
    if spans := find_spans(subject):
        words = spans[-1].lower().split()
        return [each for each in outcomes if all(has_words(word, each.command, joints="") for word in words)]
    stems = {stem for stem in find_stems(subject) if len(stem) > 3 and not stem.isdigit()}
    outcomes = [
        each for each in outcomes if not is_read_only(each.command.rpartition("\n")[2])
    ]  # a search tests nothing
    scores = [sum(_has_token(each.command, stem) for stem in stems) for each in outcomes]
    best = max(scores, default=0)
    if best < len(stems) * share:
        return []
    return [each for each, score in zip(outcomes, scores, strict=True) if best and score == best]


def _has_token(command: str, stem: str) -> bool:
    """Tells whether a command has a word with this stem, or one that ends in it: "pytest" is about tests."""
    return any(word.endswith(stem) or stem_word(word) == stem for word in _TOKEN.findall(command))


def _find_same(outcomes: Sequence[CommandOutcome]) -> Sequence[CommandOutcome]:
    """Returns the last of the outcomes if all ended alike, else none: then the sentence may mean either."""
    return outcomes[-1:] if len({each.is_ok for each in outcomes}) == 1 else ()


# -- what was said -----------------------------------------------------------------------------------------------------

_FRAME_VERBS = (
    r"wants?|wanted|asks?|asked|allow(?:s|ed)?|permit(?:s|ted)?|lets?|forb[ai]d(?:s|e|den)?|prohibit(?:s|ed)?"
    r"|prefer(?:s|red)?|likes?|dislikes?|needs?|requires?|required|insist(?:s|ed)?|says?|said|states?|stated|tells?|told"
    r"|approve[sd]?|authori[sz]e[sd]?|agree[sd]?|accept(?:s|ed)?|confirm(?:s|ed)?|request(?:s|ed)?|reject(?:s|ed)?"
    r"|refuse[sd]?|decline[sd]?|expects?|expected|decided?|decides|chose|instruct(?:s|ed)?|wish(?:es|ed)?"
    r"|demand(?:s|ed)?|cares?|is (?:fine|ok|okay|happy|willing)|would like|does(?: not|n't)|did(?: not|n't)"
    r"|has (?:asked|said|told|approved|allowed|forbidden)|never|mentioned|warn(?:s|ed)?|banned?|bans"
)
_REFUSAL = re.compile(r"\b(?:reject|refuse|decline)", re.IGNORECASE)
"""What a user may do in a word that names nothing of it."""
_ANY_USER = "".join(
    rf"(?<!\b{words} )" for words in ("a", "any", "each", "every", "if the", "when the", "once the", "until the")
)
"""Before a word for the user, these tell of the users of a program."""
_USER_CLAIM = re.compile(
    rf"(?<!\w){_ANY_USER}{USER_NOUN}\s(?:\w+ly\s|also\s|then\s|now\s|later\s)*(?:{_FRAME_VERBS})\b"
    rf"|\b(?:{_FRAME_VERBS}) (?:by|from) (?:the )?{USER_NOUN}\b|\bper the {USER_NOUN}\b"
    rf"|\b(?:the )?{USER_NOUN}['\u2019]s (?:wish|request|instruction|permission|approval|rule|decision|preference)"
    rf"|^\W*{USER_NOUN}\s?[\]:]",
    re.IGNORECASE,
)
_FRAME_STEMS = find_stems(
    "user customer human nutzer benutzer anwender kunde utilisateur usuario utente gebruiker want wanted ask allow"
    " permit permitted let forbid forbade forbidden prohibit prefer preferred like dislike need require insist say said"
    " state tell told approve authorize authorise agree accept confirm request reject refuse decline expect decide"
    " decided chose instruct wish demand care fine okay happy willing assistant agent permission approval rule"
    " instruction preference decision answer reply mention warn ban banned explicitly erlaubt verbietet möchte verlangt"
    " interdit autorise veut permite prohíbe quiere"
)
"""Words that say who wants something, not what."""
_MIN_SUPPORT = 0.5
"""Part of the words of a claim about the user that one of the user's messages must share."""
_MIN_OVERLAP = 0.3
"""Part that a clause must share for its polarity to count for a claim about the user."""
_NO_SUPPORT, _MUCH_NEARER, _NEARLY_SAME = 0.2, 0.3, 0.6
"""Less than the first is no support at all. By the second, a tool's text is nearer to the claim than the user's, and by
the third it says nearly the same.
"""
_MIN_SHARED = 2
"""Words that a line of a tool must share with a claim to be near it."""
_AS_GOOD = 0.95
"""A clause that shares this part of what the best one shares counts as well."""
_SAME_MATTER = 0.8
"""Part that a clause and a claim about anything else must share to be about the same matter."""
_MIN_STEMS, _MIN_PROSE = 3, 2
"""Words of a clause, and those that are no part of a name, that say what it is about."""
_WORD = re.compile(r"[^\W\d_]{2}")
_COMMA = re.compile(r",\s|\band (?=not\b)")
_PART_END = re.compile(r"[;\u2014]|\. |, (?:so|which|because|and (?:the assistant|then))\b")


def _check_statements(sentence: str, source: SourceText) -> list[ClaimError]:
    masked = mask_literals(sentence)
    claim = _USER_CLAIM.search(masked)
    if not claim:
        return list(_find_contradictions(sentence, source))
    start, end = next(part for part in _split_parts(masked) if part[0] <= claim.start() < part[1])
    is_passive = bool(re.search(rf"(?:by|per|from) (?:the )?{USER_NOUN}\Z", claim.group(), re.IGNORECASE))
    is_passive |= "'" in claim.group() and not _WORD.search(masked[claim.end() : end])  # as in "(the user's wish)"
    told = sentence[start if is_passive else claim.start() : end]
    if told.rstrip("*_ ").endswith(":") or (is_passive and _NOT_DONE.search(masked[start : claim.start()])):
        return []
    quotations = [words for at, words in locate_quotations(sentence) if claim.start() <= at < end]
    if any(source.has_quotation(q) and not source.has_quotation(q, by_user=True) for q in quotations):
        return [ClaimError("user", f'"{excerpt(sentence, 160)}": the quoted words are not the user\'s')]
    is_refusal = bool(_REFUSAL.search(claim.group()))
    is_foreign = bool(source.user_languages - {detect_language(sentence) or "en"})
    if is_refusal:
        told = told.replace(":", " ", 1)  # what is listed behind is what was refused
    clauses = [clause._replace(stems=clause.stems - _FRAME_STEMS) for clause in read_clauses(told)]
    contradictions = [error for clause in clauses if (error := _find_opposite(clause, told, source)) is not None]
    stems = frozenset(stem for clause in clauses for stem in clause.stems)
    if contradictions or not stems or not source.user_statements or is_refusal:
        return contradictions
    return list(_check_support(stems, told, source, is_foreign=is_foreign))


def _split_parts(masked: str) -> Iterator[tuple[int, int]]:
    """Yields where the parts of a sentence begin and end of which one tells what the user wants."""
    start = 0
    for match in _PART_END.finditer(masked):
        yield start, match.start()
        start = match.start()
    yield start, len(masked)


def _find_opposite(clause: Clause, sentence: str, source: SourceText) -> ClaimError | None:
    """Compares a clause of what the user is said to want with those that the user said most like it."""
    statements = source.user_statements
    weights = _weigh_stems(clause.stems, statements)
    scored = [(count_shared(clause.stems, weights, each.clause.stems), each) for each in statements]
    best, nearest = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    if nearest is None or best < _MIN_OVERLAP:
        return None
    if not all(_is_opposite(clause, each.clause) for score, each in scored if score >= best * _AS_GOOD):
        return None
    shown, said = excerpt(sentence.strip(), 160), excerpt(nearest.sentence, 160)
    return ClaimError("user", f'"{shown}": the user said the opposite: "{said}"')


def _check_support(
    stems: frozenset[str], sentence: str, source: SourceText, *, is_foreign: bool
) -> Iterator[ClaimError]:
    """Yields an error if the user said nothing of the kind, or a tool's text is much nearer to it than the user's.

    A claim in another language than the user's shares no words with what they said. It is wrong only if a tool's text
    or a call says nearly the same.
    """
    weights = _weigh_stems(stems, source.user_statements)
    by_user = max(count_shared(stems, weights, words) for words in source.user_stems)
    if by_user >= _MIN_SUPPORT:
        return
    others = (*source.tool_stems, *map(find_stems, source.calls)) if is_foreign else source.tool_stems
    near = (words for words in others if len(words & stems) >= _MIN_SHARED)
    by_tool = max((count_shared(stems, weights, words) for words in near), default=0.0)
    is_unsupported = by_user < _NO_SUPPORT or by_tool >= by_user + _MUCH_NEARER
    if by_tool >= by_user + _NEARLY_SAME if is_foreign else is_unsupported:
        whose = (
            "a tool's output says something like it, the user never did"
            if by_tool > by_user
            else "the user never said this"
        )
        yield ClaimError("user", f'"{excerpt(sentence.strip(), 160)}": {whose}')


def _weigh_stems(stems: frozenset[str], statements: Sequence[Statement]) -> Mapping[str, float]:
    """Weighs stems: the fewer statements hold one, the more it tells which of them is meant."""
    counts = {stem: sum(stem in each.clause.stems for each in statements) for stem in stems}
    return {stem: 1.0 / max(count, 1) for stem, count in counts.items()}


def _is_opposite(claim: Clause, statement: Clause) -> bool:
    return claim.is_denied != statement.is_denied and not (claim.is_conditional and statement.is_conditional)


def _find_contradictions(sentence: str, source: SourceText) -> Iterator[ClaimError]:
    """Yields an error for each clause that denies what a statement about the same matter affirms, or the reverse.

    Here each item of a list is a clause of its own, unless a clause with all of its items says the same as the source.
    Quotations say nothing themselves, and code denies nothing.
    """
    masked = mask_literals(sentence, code=False)
    whole = read_clauses(masked)
    is_conditional = any(clause.is_conditional for clause in whole)
    for item in _find_items(masked):
        prose = find_stems(_NAME.sub("_", mask_literals(item))) - _FRAME_STEMS
        for clause in read_clauses(item):
            clause = clause._replace(is_conditional=is_conditional)  # noqa: PLW2901 - of the sentence it is in
            stems = clause.stems - _FRAME_STEMS
            if len(stems) < _MIN_STEMS or not _is_plain(item):
                continue
            same = _find_same_matter(stems, prose, source)
            same = [each for each in same if collapse_spaces(each.sentence) != collapse_spaces(sentence)]
            is_opposite = bool(same) and all(_is_opposite(clause, each.clause) for each in same)
            if is_opposite and not any(_is_said_in_full(each, same) for each in whole):
                yield ClaimError(
                    "contradicted", f'"{excerpt(sentence, 160)}": the source says "{excerpt(same[-1].sentence, 160)}"'
                )


def _is_said_in_full(clause: Clause, same: Sequence[Statement]) -> bool:
    """Tells whether a clause says what one of the statements says, its denial included."""
    stems = clause.stems | _FRAME_STEMS
    return any(clause.is_denied == each.clause.is_denied and each.clause.stems <= stems for each in same)


_NAME = re.compile(rf"{_CLAIM.pattern}|\S{{0,200}}/\S*")
"""A name or a path: two sentences that share one may still be about different matters."""


def _find_items(masked: str) -> Iterator[str]:
    """Yields the items of a sentence between commas that are not part of code."""
    hidden = mask_literals(masked)
    start = 0
    for match in _COMMA.finditer(hidden):
        yield masked[start : match.start()]
        start = match.end()
    yield masked[start:]


def _is_plain(item: str) -> bool:
    """Tells whether a text denies as much with its code as without it."""
    return [c.is_denied for c in read_clauses(item)] == [c.is_denied for c in read_clauses(mask_literals(item))]


def _find_same_matter(stems: frozenset[str], prose: frozenset[str], source: SourceText) -> list[Statement]:
    """Returns the statements that share most of the words of a clause, and of its prose, and say little else."""
    candidates = {id(each): each for stem in sorted(stems) for each in source.statements_by_stem.get(stem, ())}.values()
    words = prose & stems
    if len(words) < _MIN_PROSE:
        return []
    return [
        each
        for each in candidates
        if len(shared := stems & each.clause.stems) >= _SAME_MATTER * max(len(stems), len(each.clause.stems))
        and len(shared & words) >= _SAME_MATTER * len(words)
    ]
