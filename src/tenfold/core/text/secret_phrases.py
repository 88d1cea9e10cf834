"""Finds secrets that a sentence tells, in several languages: "the password is ...", "das Passwort lautet ...", a PIN.

A word counts as the password only where the sentence says what the password is. "The password is required" stays.
"""

from __future__ import annotations

import re

from tenfold.core.text.secret_values import (
    MASK,
    is_harmless,
    is_key,
    is_password,
    is_strong_password,
    is_word_as_password,
    mask_values,
)

_ASCII_WORDS = [
    "password", "passwd", "passwort", "passphrase", "passcode", "pwd", "kennwort", "wachtwoord", "heslo", "parola",
    "senha",
]  # fmt: skip
OTHER_PASSWORD_WORDS = [
    "mot de passe", "contraseña", "hasło", "şifre", "lösenord", "jelszó", "пароль", "密码", "密碼", "口令",
    "パスワード", "비밀번호", "암호", "ключ", "كلمة المرور", "كلمة السر", "पासवर्ड",
]  # fmt: skip
"""What a password is called."""
_PASSWORD_WORD = re.compile(rf"{'|'.join((*_ASCII_WORDS, *OTHER_PASSWORD_WORDS))}|pw\b|pass\b")
_IS = "is|was|to|as|lautet|ist|est|es|\u00e8|\u00e9|jest|\u00e4r|on|je|\u044d\u0442\u043e|\u0647\u064a"
_QUOTES = "\"'`*\u201c\u201d\u201e\u00ab\u300c\u300e"
_CHANGED = r"(?:was|is|been)\s+(?:re)?(?:set|changed|updated)\s+to"
_LINK = (
    rf"(?:\s*[:\uff1a=\u2014\u2013]\s*|\s+-\s+|\s+(?:{_CHANGED}|{_IS})\s*:?\s+"
    r"|[\u662f\u4e3a\u70ba\u306f\ub294\uc740]\s*)"
)
_VALUE = rf"(\\*[{_QUOTES}]{{0,2}})([!#-&()+-\[\]-_a-~]{{4,100}})"
_PASSWORD = re.compile(
    rf"((?i:(?:{'|'.join((*_ASCII_WORDS, *OTHER_PASSWORD_WORDS))}|\bpw(?![a-z])|\bpass(?![a-z]))(?![a-z]{{0,100}}[_(])"
    rf"(?:[^\n.;:\uff1a=|{_QUOTES}]{{0,40}}?{_LINK}|\s+(?=\S*\d)))){_VALUE}"
)
_AS_PASSWORD = re.compile(
    rf"(\b(?:use|with|enter|try|type|set)\s+\\*[{_QUOTES}]{{0,2}})([^\s{_QUOTES}]{{6,100}})"
    rf"(?=[{_QUOTES}]{{0,2}}\s+as\s+(?:\w+\s+){{0,3}}pass)",
    re.IGNORECASE,
)
_QUOTED_PHRASE = re.compile(r"(passphrase\s+(?:is|was|:)\s*\\*([\"'`]))([^\"'`\n\\]{6,200})(?=\\*\2)", re.IGNORECASE)
_SEED = re.compile(
    r"((?:seed|recovery|backup|secret)\s+(?:phrase|words)|mnemonic)(\W+(?:is\W+)?)((?:[a-z]{3,8}\s+){11,23}[a-z]{3,8})",
    re.IGNORECASE,
)
_KEY_SENTENCE = re.compile(
    rf"(\b(?:(?:api|access|private|secret|license|licence|signing|encryption|account)\s+key|token|secret)"
    rf"(?:[^\n.;:=|{_QUOTES}]{{0,40}}?(?:\s*:\s*|\s+(?:is|was|to|ist|lautet)\s*:?\s+))\\*[{_QUOTES}]{{0,2}})"
    r"([^\s\"'`,;]{16,200})",
    re.IGNORECASE,
)
_PAIR = re.compile(
    rf"(\b(?:credentials?|login|logins|zugangsdaten|account)\b(?:\s+\w+){{0,3}}?\s*(?:are|is|:|sind)\s*[{_QUOTES}]?"
    rf"[\w.@+-]{{2,64}}[{_QUOTES}]?\s*[/|,:]\s*[{_QUOTES}]?)([^\s{_QUOTES}]{{6,100}})",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"((?<![a-z])(?:pin(?:[ -]?(?:code|number))?|otp|cvv2?|cvc2?|passcode|geheimzahl"
    r"|(?:security|verification|one-time|login|access|door|2fa|auth(?:entication)?)\s+(?:code|pin))(?![a-z_])"
    r"(?:\\*[\"']?\s*[:=]\s*\\*[\"']?|[^\n\d.;:=(]{0,30}?\s+(?:is|lautet|ist|est|es|\u00e8|\u00e9)\s*:?\s+)[`*\"']{0,2})"
    r"(\d{3,8})(?![\w-]|\.\d)",
    re.IGNORECASE,
)
_CODE_HINTS = ("pin ", "pin:", "pin=", "pin-", 'pin"', "otp", "cvv", "cvc", " code", "passcode", "geheimzahl")


def mask_told_secrets(text: str, folded: str) -> str:
    """Replaces secrets that a sentence tells. `folded` is the casefolded text, of before others were replaced."""
    if _PASSWORD_WORD.search(folded):
        text = _QUOTED_PHRASE.sub(lambda found: found[1] + MASK, text)
        text = _PASSWORD.sub(_mask_told_password, text)
        text = mask_values(_AS_PASSWORD, text, is_password)
    if "phrase" in folded or "mnemonic" in folded or "y words" in folded:
        text = _SEED.sub(rf"\1\2{MASK}", text)
    if "key" in folded or "token" in folded or "secret" in folded:
        text = mask_values(_KEY_SENTENCE, text, lambda value: is_key(value.rstrip(".")))
    if "credential" in folded or "login" in folded or "zugangsdaten" in folded:
        text = mask_values(_PAIR, text, lambda value: is_password(value.rstrip(".,")))
    if any(map(folded.__contains__, _CODE_HINTS)):
        text = _CODE.sub(rf"\1{MASK}", text)
    return text


def _mask_told_password(match: re.Match[str]) -> str:
    lead, quote, value = match[1], match[2], match[3]
    secret = value.rstrip(".,;:?)*")
    rest = value[len(secret) :]
    if "://" in secret:
        return match[0]
    is_linked = not lead[-1].isspace() or lead.rstrip()[-1] in ":=-\uff1a\u2014\u2013" or _has_link_at_end(lead)
    if not is_linked:
        is_told = is_strong_password(secret)
    elif any(map(str.isdigit, secret)):
        is_told = is_password(secret)
    else:
        is_told = _is_told_word(match, secret, quote, rest)
    return f"{lead}{quote}{MASK}{rest}" if is_told else match[0]


def _has_link_at_end(lead: str) -> bool:
    words = lead.rstrip(" :").rsplit(None, 1)
    return len(words) > 1 and re.fullmatch(_IS, words[1], re.IGNORECASE) is not None


def _is_told_word(match: re.Match[str], secret: str, quote: str, rest: str) -> bool:
    """Whether a word without digits is told as the password: in quotes, or as the last word of its sentence."""
    lead = match[1].lower()
    if not secret.isalpha() or is_harmless(secret):
        return False
    if quote.strip("\\"):
        return is_word_as_password(secret) and " is" in lead
    follows = match.string[match.end() : match.end() + 1]
    ends = rest[:1] in (".", ",") or follows in ("", "\n", "\\")
    return ends and lead.rstrip().endswith(" is") and secret.islower() and is_word_as_password(secret)
