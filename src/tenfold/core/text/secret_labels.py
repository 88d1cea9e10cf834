"""Finds secrets by what stands in front of them: `DB_PASS=...`, a header, a URL's parameter, a flag of a command line.

In a command line a flag or the position says what a word is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tenfold.core.text.secret_values import (
    MASK,
    SHORTEST_SECRET,
    is_harmless,
    is_key,
    is_password,
    is_prose,
    is_suspect,
    mask_values,
)

_KEY_KINDS = [
    "api", "access", "secret", "private", "account", "signing", "encryption", "master", "shared", "preshared",
    "storage", "session", "service", "admin", "client", "auth", "deploy", "license",
]  # fmt: skip
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
    r"((?:\b(?:set-)?cookie\\*[\"']?\s*[:=]\s*|\s--cookie(?:\s+|=)|\s-b\s+(?=\\*[\"']))\\*[\"']?)([^\s\"'\\]{1,300}=[^\n\"'\\]+)",
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
_URL_LOGIN = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:)([^\s/]{1,200})(?=@)")
_URL_TOKEN = re.compile(r"(\bhttps?://)([A-Za-z0-9_-]{20,200})(?=@)")
_URL_PARAMETER = re.compile(
    r"([?&](?:(?:\w+[_-])?(?:token|key|apikey|api_key|secret|signature|sig|password|passwd|pwd|auth)"
    r"|X-(?:Amz|Goog)-(?:Signature|Security-Token))=)([^&\s\"'<>#\\]{8,})",
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
        text = mask_values(_SCHEME, text, _is_token)
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
        text = mask_values(_AUTHORIZATION, text, _is_credential)
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
        text = mask_values(_PHRASE, text, group=3)
        text = mask_values(_SPACED_PASSWORD, text, _has_password, group=3)
    if "pass" in folded or "identified" in folded:
        text = mask_values(_SQL, text)
    if "value" in folded:
        text = mask_values(_NAME_VALUE_PAIR, text)
    if "</" in text:
        text = mask_values(_ELEMENT, text)
    if ASSIGNMENT.search(folded):
        text = LABELLED_VALUE.sub(_mask_labelled_value, text)
    text = _SHORT_LABEL.sub(_mask_short_label, text)
    text = mask_values(_CALL, text, is_password)
    if "|" in text:
        text = mask_values(_TABLE_CELL, text, is_password)
    return text


def _mask_in_addresses(text: str) -> str:
    text = _WEBHOOK.sub(rf"\1{MASK}", text)
    if "@" in text:
        text = mask_values(_URL_LOGIN, text)
        text = mask_values(_URL_TOKEN, text, is_key)
    if "?" in text or "&" in text:
        text = mask_values(_URL_PARAMETER, text, _has_digit)
    return text


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value)) and not is_harmless(value)


def _is_token(value: str) -> bool:
    return _has_digit(value) or ("=" in value and not is_harmless(value))


def _is_credential(value: str) -> bool:
    is_word = value.rstrip(".").replace("_", "").isalpha()
    return not is_word and not is_harmless(value)


def _has_password(value: str) -> bool:
    words = value.split()
    return len(words) > 1 and any(map(is_password, words))


def _mask_cookies(match: re.Match[str]) -> str:
    return match[1] + _COOKIE_VALUE.sub(lambda found: MASK if any(map(str.isdigit, found[0])) else found[0], match[2])


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


# -- command lines -----------------------------------------------------------------------------------------------------

_WORD = r"""([^\s"'|;&<>]{4,200})"""
_QUOTE = r"""\\*["']?"""
_FLAG = re.compile(
    r"(--(?:\w+-){0,4}(?:api-?key|access-?key|secret-?key|private-?key|client-?secret|secret|token|passwd|password"
    r"|passphrase|pass|pwd|credentials?)(?:\s+|=)\\*[\"']?)([^\s\"',;)}\]-][^\s\"',;)}\]]{5,199})",
    re.IGNORECASE,
)
_LOGIN = re.compile(rf"((?:\s-u|\s--user)(?:\s+|=){_QUOTE}[\w.@%+-]{{1,64}}:)([^\s\"'/][^\s\"']{{5,199}})")
_KEY_AS_USER = re.compile(rf"(\bcurl\b[^\n|;]{{0,200}}?\s(?:-u|--user)\s+{_QUOTE})([A-Za-z0-9_-]{{16,200}})(?=:)")
_ARGUMENTS = r"(?:\s[^\n|;&]{0,200}?)?"


def _is_no_word(value: str) -> bool:
    return not is_prose(value) and is_suspect(value)


_COMMANDS: tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("mysql", re.compile(rf"(\bmysql\w*(?:\s[^\n|;&]{{0,200}})?\s-p{_QUOTE})([^\s\"'/]{{4,200}})"), is_suspect),
    ("sshpass", re.compile(rf"(\bsshpass\s+-p\s*{_QUOTE}){_WORD}"), is_suspect),
    ("login", re.compile(rf"(\blogin\b{_ARGUMENTS}\s-p\s*{_QUOTE}){_WORD}"), is_suspect),
    ("login", re.compile(rf"(\bvault\s+login\s+{_QUOTE}){_WORD}"), is_password),
    ("login", re.compile(r"(\blogin\s+\S{1,100}\s+password\s+)(\S{4,200})"), _is_no_word),
    ("login", re.compile(rf"(\blogin\b[^\n]{{0,200}}<<<\s*{_QUOTE}){_WORD}"), is_suspect),
    ("login", re.compile(rf"(\becho\s+(?:-n\s+)?{_QUOTE}){_WORD}(?={_QUOTE}\s*\|[^\n]{{0,80}}\blogin\b)"), is_suspect),
    ("redis-cli", re.compile(rf"(\bredis-cli{_ARGUMENTS}\s-a\s+{_QUOTE}){_WORD}"), is_suspect),
    ("mongo", re.compile(rf"(\bmongo\w*{_ARGUMENTS}\s-p\s*{_QUOTE}){_WORD}"), is_suspect),
    ("sqlcmd", re.compile(rf"(\bsqlcmd{_ARGUMENTS}\s-P\s*{_QUOTE}){_WORD}"), is_suspect),
    ("smbclient", re.compile(rf"(\bsmbclient{_ARGUMENTS}\s-U\s*{_QUOTE}[^\s%]{{1,64}}%){_WORD}"), is_suspect),
    ("ldap", re.compile(rf"(\bldap\w+{_ARGUMENTS}\s-w\s*{_QUOTE}){_WORD}"), is_suspect),
    ("pass:", re.compile(rf"(\s-pass(?:in|out)?\s+{_QUOTE}pass:){_WORD}"), is_suspect),
    ("sudo", re.compile(rf"(\becho\s+(?:-n\s+)?{_QUOTE}){_WORD}(?={_QUOTE}\s*\|\s*sudo\s+-\w*S)"), is_suspect),
    (
        "chpasswd",
        re.compile(rf"(\becho\s+(?:-n\s+)?{_QUOTE}[\w.-]{{1,64}}:){_WORD}(?={_QUOTE}\s*\|[^\n]*chpasswd)"),
        is_suspect,
    ),
    ("htpasswd", re.compile(rf"(\bhtpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+{_QUOTE}){_WORD}"), is_suspect),
    ("zip", re.compile(rf"(\b(?:un)?zip{_ARGUMENTS}\s-P\s*{_QUOTE}){_WORD}"), is_suspect),
    ("7z", re.compile(rf"(\b7z\w*{_ARGUMENTS}\s-p{_QUOTE}){_WORD}"), is_suspect),
    ("ssh-keygen", re.compile(rf"(\bssh-keygen{_ARGUMENTS}\s-[NP]\s*{_QUOTE}){_WORD}"), is_suspect),
    ("aws configure", re.compile(rf"(\baws\s+configure\s+set\s+\S*(?:key|token)\S*\s+{_QUOTE}){_WORD}"), is_password),
    ("net user", re.compile(rf"(\bnet\s+user\s+\S+\s+{_QUOTE}){_WORD}"), is_password),
    ("SecureString", re.compile(rf"(ConvertTo-SecureString\s+(?:-String\s+)?{_QUOTE}){_WORD}"), is_suspect),
)
"""For each program: what a text must contain, the pattern, whose group 2 is the secret, and which values count."""


def mask_command_secrets(text: str) -> str:
    """Replaces secrets in command lines."""
    if "--" in text:
        text = mask_values(_FLAG, text, _is_no_word)
    if "-u" in text:
        text = mask_values(_LOGIN, text)
        text = _KEY_AS_USER.sub(rf"\1{MASK}", text) if "curl" in text else text
    for hint, pattern, is_secret in _COMMANDS:
        if hint in text:
            text = mask_values(pattern, text, is_secret)
    return text
