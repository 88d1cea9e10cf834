"""Reads clauses: which words they are about, and whether they affirm or deny.

Two sentences about the same matter contradict each other if one affirms and the other denies it. A clause
is denied if it holds an odd number of denying words, wherever they stand: "never push to main", "pushing to main is not
allowed". Particles count once, since many languages double them ("ne ... pas").
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tenfold.core.text.memoize import memoize_short

_PARTICLES = (
    r"not|n't|never|no|none|nothing|nobody|nowhere|neither|nor|cannot"  # en
    r"|nicht|nichts|nie|niemals|niemand|kein\w*|niet|nooit|niets|niemand|geen"  # de, nl
    r"|ne|n'|pas|jamais|rien|aucune?|nunca|jamás|nada|ning[uú]n\w*|não|nao|nenhum\w*|non|niente"
    r"|nessun\w*"  # fr, es, pt, it
    r"|nigdy|żad\w*|nic|değil|asla|hiç\w*|не|ни|нет|никогда|нельзя|никак\w*"  # pl, tr, ru
    r"|لا|لم|لن|ليس|أبدا|मत|नहीं|न"  # ar, hi
)
_UNSPACED_PARTICLES = r"不(?!过|過)|(?<![特分区個])[别別](?![的人名])|没|沒|ない|なく|ません|않|못|지 ?마"
"""Particles of languages in which they are not set apart by spaces: zh, ja, ko."""
_DENYING_WORDS = (
    r"without|avoid\w*|stop|refrain\w*|forb[aio]d\w*|prohibit\w*|ban|bans|banned|disallow\w*|refus\w*|reject\w*"
    r"|declin\w*|against|untouched|unchanged|intact|unwanted|unacceptable|dislik\w*|oppos\w*|skip\w*|omit\w*|exclud\w*"
    r"|off[- ]limits|hands off|(?:leav(?:e|es|ing)|left)\b[^,.;]{0,40} out|as (?:it|they) (?:is|are)"
    r"|(?:leav(?:e|es|ing)|left|let)\b[^,.;]{0,40} alone"
    r"|ohne|verb[io]\w*t\w*|unterlass\w*|vermeid\w*|zonder|vermijd\w*"
    r"|sans|interdi\w*|évite\w*|sin|prohib\w*|prohíb\w*|evita\w*|sem|proib\w*|proíb\w*|senza|vieta\w*"
    r"|bez|zabr[ao]n\w*|yasak\w*|без|запре\w*|ممنوع|يحظر|मना|वर्जित"
)
_UNSPACED_DENYING_WORDS = r"禁止|勿|금지"
_PARTICLE = re.compile(rf"(?<!\w)(?:{_PARTICLES})(?!\w)|(?<=\w)n't\b|\bn'(?=\w)|{_UNSPACED_PARTICLES}", re.IGNORECASE)
_DENYING_WORD = re.compile(rf"(?<!\w)(?:{_DENYING_WORDS})(?!\w)|{_UNSPACED_DENYING_WORDS}", re.IGNORECASE)
_EMPHASIS = re.compile(r"\b(?:no (?:longer|matter|doubt|problem)|not only|whether or not)\b", re.IGNORECASE)
_CONDITION = re.compile(
    r"\b(?:unless|until|without|before|after|except|only|once|if|when|while|wenn|falls|bevor|solange|ohne|nur|außer|erst"
    r"|sauf|avant|sans|seulement|salvo|antes|sin|sem|solo|só|prima|senza|tenzij|voordat|zonder|alleen|chyba|dopóki|bez"
    r"|если|пока|без|только|кроме)\b|先|才|除非|まで|前に|전에|없이",
    re.IGNORECASE,
)
"""Words that make a statement hold in some cases only."""
_BOUNDARY = re.compile(
    r"[.!?](?=\s|$)|[;:()\n\u2013\u2014\u3002\uff01\uff1f\uff0c\uff1b]| - "
    r"|,?\s(?=(?:but|however|instead of|rather than|because|since|so that|although|whereas"
    r"|and (?:asks?|wants?|also|then|instead)"
    r"|aber|sondern|statt|anstatt|weil|denn|mais|plutôt que|au lieu de|pero|sino|porque|ya que|en vez de|mas|em vez de"
    r"|ma|invece di"
    r"|maar|in plaats van|ale|zamiast|но|вместо)\b)",
    re.IGNORECASE,
)
_PREFERRED_OVER = re.compile(
    r"^(?:instead of|rather than|statt|anstatt|plutôt que|au lieu de|en vez de|em vez de|invece di|in plaats van"
    r"|zamiast|вместо)\b",
    re.IGNORECASE,
)
"""What a clause begins with that names what is not wanted."""
_NEW_STATEMENT = re.compile(
    r"(?:just|please|use|always|only|instead|open|i|you|we|it|they|then|so|which|the|this|that"
    r"|\w+ (?:is|are|was|must|should|may|can))\b",
    re.IGNORECASE,
)
"""How a part after a comma begins that is a statement of its own, not the next item of a list."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_ENDINGS = ("ation", "ment", "ingly", "ing", "ion", "edly", "ed", "ly", "al", "en", "e")
_STEM_CHARS = 6
_FILLER_TEXT = """
    a an the this that these those it its they them their there he she his her him we our us you your i me my be is are
    was were been being am do does did done has have had having will would shall should can could may might must to of
    in on at by for from with into onto as and or if so than then too also very just now yet already any some all each
    every both more most less least much many other such only own same about over under up down out off again once
    still even here which who whom whose what when where why how because while until before after whether please make
    get got use used using want wants need needs let lets via per etc not no never without don't doesn't didn't isn't
    aren't wasn't won't can't cannot couldn't shouldn't mustn't one ones thing things
    nobody nothing nowhere everyone everybody anyone anybody someone somebody
    der die das den dem des ein eine einen einem einer und oder zu in im an auf für mit von ist sind war du ich wir er
    sie es mir mich dich bitte nicht nie niemals kein keine wenn als auch nur noch
    le la les un une des du de et ou à au aux en dans pour par sur que qui ne pas est sont je tu il nous vous
    el los las una unos y o a por para con no es son que se lo su al del
    """
_FILLERS = frozenset(_FILLER_TEXT.split())
"""Words that say nothing about the matter of a sentence."""


_MAX_ITEM_WORDS = 6
"""Most words of an item in a list."""


class Clause(NamedTuple):
    """A clause: the stems of its words, whether it denies them, and whether it holds under a condition only."""

    stems: frozenset[str]
    is_denied: bool
    is_conditional: bool


@memoize_short(32_768)
def stem_word(word: str) -> str:
    """Returns what inflected forms of a word have in common. It need not be a word: `pushing` gives `push`."""
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    if word.endswith("y"):
        word = word[:-1] + "i"
    return word[:_STEM_CHARS]


def find_stems(text: str) -> frozenset[str]:
    """Returns the stems of the words that say something; of Chinese and Japanese, pairs of characters."""
    words = (word.replace("\u2019", "'") for word in _WORD.findall(text.lower()))
    stems = {stem_word(word) for word in words if word not in _FILLERS and (len(word) > 1 or word.isdigit())}
    for run in _CJK.findall(text):
        stems.update(run[at : at + 2] for at in range(max(len(run) - 1, 1)))
    return frozenset(stems)


@memoize_short(8_192, longest=2_000)
def read_clauses(sentence: str) -> tuple[Clause, ...]:
    """Splits a sentence into its clauses. A list after a denying word belongs to the clause of that word."""
    is_conditional = bool(_CONDITION.search(sentence))
    parts = _split_clauses(sentence.replace("\u2019", "'"))
    return tuple(Clause(stems, _is_denied(part), is_conditional) for part in parts if (stems := find_stems(part)))


def _is_denied(part: str) -> bool:
    plain = _EMPHASIS.sub(" ", part)
    denials = bool(_PARTICLE.search(plain)) + len(_DENYING_WORD.findall(plain))
    return (denials + bool(_PREFERRED_OVER.match(part.lstrip(" ,")))) % 2 == 1


def _split_clauses(sentence: str) -> list[str]:
    out: list[str] = []
    for piece in _BOUNDARY.split(sentence):
        current = ""
        for part in re.split(r",\s+", piece or ""):
            starts_anew = _NEW_STATEMENT.match(part) or _PARTICLE.match(part) or len(part.split()) > _MAX_ITEM_WORDS
            if current and starts_anew:
                out.append(current)
                current = part
            else:
                current = f"{current}, {part}" if current else part
        out.append(current)
    return [part for part in out if part.strip()]


_LANGUAGE_WORDS = {
    "en": "the a an of to and is it for with that this you we are be not do in on",
    "de": "der die das und ist nicht ein eine zu den dem mit für auf ich du wir sie bitte es",
    "fr": "le la les des et est une un pas pour que dans du je tu nous vous avec sur",
    "es": "el los las y es una por para que con no lo se del en su al",
    "pt": "o os e é uma um por para que com não do da em no na se",
    "it": "il lo gli e è una un per che con non di del della in si",
    "nl": "de het een en is niet van te dat met voor op ik je we zijn",
    "pl": "i w na z do nie to się jest że o po za",
    "tr": "ve bir bu için ile de da değil ne olarak",
}
_WORDS_BY_LANGUAGE = {name: frozenset(words.split()) for name, words in _LANGUAGE_WORDS.items()}
_SCRIPT_SHARE = 0.2
"""Part of a text's letters that shows its script: one foreign word does not."""
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
)


def detect_language(text: str) -> str:
    """Detects the language of a text from its script and its commonest words; "" if they do not tell."""
    letters = sum(map(str.isalpha, text))
    for name, script in _SCRIPTS:
        if len(script.findall(text)) > _SCRIPT_SHARE * letters:
            return name
    words = [word for word in _WORD.findall(text.lower()) if len(word) > 1]
    scores = {name: sum(word in common for word in words) for name, common in _WORDS_BY_LANGUAGE.items()}
    best, second = sorted(scores.values(), reverse=True)[:2]
    return max(scores, key=scores.__getitem__) if best > max(second, 1) else ""
