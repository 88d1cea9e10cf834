"""Finds secrets by the label in front of them: `DB_PASS=...`, a header, an element of XML, a URL's parameter."""

from __future__ import annotations

import re

from tenfold.core.text.secret_values import MASK, SHORTEST_SECRET, is_harmless, is_key, is_password

_KEY_KINDS = [
    "api",
    "access",
    "secret",
    "private",
    "account",
    "signing",
    "encryption",
    "master",
    "shared",
    "preshared",
    "storage",
    "session",
    "service",
    "admin",
    "client",
    "auth",
    "deploy",
    "license",
]
SECRET_ENDINGS = (
    *(f"{kind}{sign}key" for kind in _KEY_KINDS for sign in ("", "[_-]")),
    *("secret", "token", "passwd", "password", "passphrase", "passcode", "pwd", "credential", "credentials"),
    *("key-data", "[_-]pass", "secret_key_base", "[_-]psk", "_pat"),
)
"""How the names of secret values end."""
_LABEL = "|".join(f"(?<={end})" for end in SECRET_ENDINGS)
_SEPARATOR = r"\\*[\"']?\]?\s*(?:=>|:=|=|:)\s*(?:\[\s*)?\\*[\"']?"
LABELLED_VALUE = re.compile(rf"((?<![\w-])[\w-]++(?:{_LABEL}){_SEPARATOR})([^\s\"',;)}}\]<]{{6,}})", re.IGNORECASE)
ASSIGNMENT = re.compile(
    r"(?:key|secret|token|passwd|password|passphrase|passcode|pwd|credent(?:i\u0307?|\u0131)als?|key-data|[_-]pass|_base"
    r"|[_-]psk|_pat)"
    r"\\*[\"']?\]?\s*(?:=>|:=|=|:)\s*(?:\[\s*)?\\*[\"']?[^\s\"',;)}\]<]{6}"
)
"""Matches the end of every match of `LABELLED_VALUE`, in casefolded text. Most texts that mention a token assign none;
this pattern finds that out in a twentieth of the time."""
_NAME = re.compile(rf"(?i:[\w.-]++(?:{_LABEL}))|[A-Z0-9_]{{1,40}}_KEY|(?i:pass|pw|psk|pin|cvv|cookie)")
_SHORT_LABEL = re.compile(
    rf"((?<![\w.-])(?:[A-Z0-9_]{{1,40}}_KEY|psk|_auth|auth|PASS|pass|PW|pw){_SEPARATOR}(?:base64:)?)"
    r"([^\s\"',;)}\]<]{6,200})"
)
"""Short names that are labels only if the value looks like a secret."""
_PHRASE = re.compile(r"(passphrase\\*[\"']?\s*[=:]\s*\\*([\"']))([^\"'\n]{6,200})(?=\\*\2)", re.IGNORECASE)
_SPACED_PASSWORD = re.compile(r"(passw(?:or)?d\\*[\"']?\s*[=:]\s*\\*([\"']))([^\"'\n\\]{6,80})(?=\\*\2)", re.IGNORECASE)
_NAME_VALUE_PAIR = re.compile(
    rf"((?:\b(?:name|key)\\*[\"']?\s*[:=]\s*\\*[\"']?)[\w.-]++(?:{_LABEL}|(?<=key))"
    r"\\*[\"']?(?:[\s,]|\d+\t)*\\*[\"']?value\\*[\"']?\s*[:=]\s*\\*[\"']?)([^\s\"\\']{6,200})",
    re.IGNORECASE,
)
"""A secret in a pair of name and value, the form in which settings are sent to a service."""
_ELEMENT = re.compile(
    rf"(<[\w.:-]{{0,40}}(?:{'|'.join(SECRET_ENDINGS)}|pass)>\s*)([^<\s]{{4,200}})(?=\s*</)", re.IGNORECASE
)
_CALL = re.compile(
    r"((?:passw(?:or)?d|secret|token|api_?key|passphrase)\\*[\"']?\s*[(,]\s*\\*[\"'])([^\s\"'\\]{6,200})(?=\\*[\"'])",
    re.IGNORECASE,
)
"""A secret given to a function: `setPassword("...")`, `define('DB_PASSWORD', '...')`."""
_SQL = re.compile(
    r"(\b(?:IDENTIFIED[ \t]+BY|PASSWORD)[ \t]+(?:PASSWORD[ \t]+)?\\*['\"])([^'\"\\\n]{4,200})(?=\\*['\"])",
    re.IGNORECASE,
)
_TABLE_CELL = re.compile(
    r"(\b(?:password|passwort|passwd|token|secret|api key)\s*\|\s*`?)([^\s|`]{6,200})", re.IGNORECASE
)
_SCHEME = re.compile(r"(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    r"(\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:[A-Za-z-]{2,20}\s+)?)([A-Za-z0-9._~+/=:-]{8,})", re.IGNORECASE
)
_SIGNATURE = re.compile(r"(\bsignature=)([0-9a-f]{40,})", re.IGNORECASE)
_COOKIES = re.compile(
    r"((?:\b(?:set-)?cookie\\*[\"']?\s*[:=]\s*|\s--cookie(?:\s+|=)|\s-b\s+(?=\\*[\"']))\\*[\"']?)([^\s\"'\\]+=[^\n\"'\\]+)",
    re.IGNORECASE,
)
_COOKIE_VALUE = re.compile(r"(?<==)[^;\s\"'=]{8,}=*")
_SESSION_COOKIE = re.compile(
    r"(\b(?:PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|laravel_session|sessionid)=)([^\s;\"'&,]{16,})",
    re.IGNORECASE,
)
_WEB_KEY = re.compile(r"(\"d\\*\"\s*:\s*\\*\")([A-Za-z0-9_-]{40,})")
_DATABASE_LINE = re.compile(
    r"((?:^|(?<=\s))[\w.*-]+:(?:\d{2,5}|\*):[\w.*-]+:[\w.@*-]+:)([^\s:\\]{6,200})", re.MULTILINE
)
"""A line of PostgreSQL's file of passwords: host, port, database, user, password."""
_URL_LOGIN = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:)([^\s/]{1,200})(@)")
_URL_TOKEN = re.compile(r"(\bhttps?://)([A-Za-z0-9_-]{20,200})(?=@)")
_URL_PARAMETER = re.compile(
    r"([?&](?:\w+[_-])?(?:token|key|apikey|api_key|secret|signature|sig|password|passwd|pwd|auth)=)([^&\s\"'<>#\\]{8,})"
    r"|([?&]X-(?:Amz|Goog)-(?:Signature|Security-Token)=)([^&\s\"'<>#\\]{8,})",
    re.IGNORECASE,
)
_WEBHOOK = re.compile(
    r"((?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/\d+/"
    r"|webhook\.office\.com/webhookb2/))([A-Za-z0-9/@_-]{20,})"
)
_LABEL_HINTS = ("key", "token", "secret", "pass", "pw", "credential", "auth", "psk", "_pat", "identified")


def mask_labelled_secrets(text: str, folded: str) -> str:
    """Replaces secrets that have a label. `folded` is the casefolded text, of before other secrets were replaced."""
    if "://" in text:
        text = _mask_in_addresses(text)
    if "bearer" in folded or "basic" in folded:
        text = _SCHEME.sub(_mask_scheme, text)
    if "sess" in folded or "connect.sid" in folded:
        text = _SESSION_COOKIE.sub(rf"\1{MASK}", text)
    if "signature=" in folded:
        text = _SIGNATURE.sub(rf"\1{MASK}", text)
    if '"kty' in folded or '\\"kty' in folded:
        text = _WEB_KEY.sub(rf"\1{MASK}", text)
    if ":5432:" in text or ":3306:" in text or ":*:" in text:
        text = _DATABASE_LINE.sub(rf"\1{MASK}", text)
    if "cookie" in folded or " -b " in text:
        text = _COOKIES.sub(_mask_cookies, text)
    if "authorization" in folded:
        text = _AUTHORIZATION.sub(_mask_credentials, text)
    if any(map(folded.__contains__, _LABEL_HINTS)):
        text = _mask_labelled_values(text, folded)
    return text


def is_secret_name(label: str) -> bool:
    """Whether a name, such as that of a field of an object, is one of a secret value."""
    return _NAME.fullmatch(label) is not None


def is_labelled_secret(label: str, value: str) -> bool:
    """Whether a value is a secret if a label of this name stands apart from it."""
    if not is_secret_name(label) or len(value) < SHORTEST_SECRET:
        return False
    return not is_harmless(value)


def _mask_labelled_values(text: str, folded: str) -> str:
    if "pass" in folded:
        text = _PHRASE.sub(_mask_phrase, text)
        text = _SPACED_PASSWORD.sub(_mask_spaced, text)
        text = _SQL.sub(lambda found: found[0] if is_harmless(found[2]) else found[1] + MASK, text)
    elif "identified" in folded:
        text = _SQL.sub(lambda found: found[0] if is_harmless(found[2]) else found[1] + MASK, text)
    if "value" in folded:
        text = _NAME_VALUE_PAIR.sub(_mask_if_secret, text)
    if "</" in text:
        text = _ELEMENT.sub(_mask_if_secret, text)
    if ASSIGNMENT.search(folded):
        text = LABELLED_VALUE.sub(_mask_labelled_value, text)
    text = _SHORT_LABEL.sub(_mask_short_label, text)
    text = _CALL.sub(_mask_password, text)
    if "|" in text:
        text = _TABLE_CELL.sub(_mask_password, text)
    return text


def _mask_in_addresses(text: str) -> str:
    text = _WEBHOOK.sub(rf"\1{MASK}", text)
    if "@" in text:
        text = _URL_LOGIN.sub(lambda found: found[0] if is_harmless(found[2]) else f"{found[1]}{MASK}{found[3]}", text)
        text = _URL_TOKEN.sub(lambda found: found[1] + MASK if is_key(found[2]) else found[0], text)
    if "?" in text or "&" in text:
        text = _URL_PARAMETER.sub(_mask_parameter, text)
    return text


def _mask_parameter(match: re.Match[str]) -> str:
    label, value = match[1] or match[3], match[2] or match[4]
    return label + MASK if any(map(str.isdigit, value)) and not is_harmless(value) else match[0]


def _mask_scheme(match: re.Match[str]) -> str:
    value = match[2]
    return match[1] + MASK if not is_harmless(value) and (any(map(str.isdigit, value)) or "=" in value) else match[0]


def _mask_credentials(match: re.Match[str]) -> str:
    value = match[2]
    is_word = value.rstrip(".").replace("_", "").isalpha()
    return match[0] if is_word or is_harmless(value) else match[1] + MASK


def _mask_cookies(match: re.Match[str]) -> str:
    return match[1] + _COOKIE_VALUE.sub(lambda found: MASK if any(map(str.isdigit, found[0])) else found[0], match[2])


def _mask_if_secret(match: re.Match[str]) -> str:
    return match[0] if is_harmless(match[2]) else match[1] + MASK


def _mask_password(match: re.Match[str]) -> str:
    return match[1] + MASK if is_password(match[2]) else match[0]


def _mask_phrase(match: re.Match[str]) -> str:
    return match[0] if is_harmless(match[3]) else match[1] + MASK


def _mask_spaced(match: re.Match[str]) -> str:
    words = match[3].split()
    return match[1] + MASK if len(words) > 1 and any(map(is_password, words)) else match[0]


def _mask_short_label(match: re.Match[str]) -> str:
    label, value = match[1], match[2]
    is_secret = is_key(value) if "KEY" in label else is_password(value) and "(" not in value
    return label + MASK if is_secret else match[0]


def _mask_labelled_value(match: re.Match[str]) -> str:
    label, value = match[1].lower(), match[2]
    word = value.rstrip(".")
    is_word = word.isalpha() and (word.islower() or word.istitle())
    if is_harmless(value) or is_harmless(word) or (is_word and "pass" not in label and "pwd" not in label):
        return match[0]
    return match[1] + MASK
