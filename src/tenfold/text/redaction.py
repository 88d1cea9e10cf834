"""Removes secrets from text that leaves the store: summaries, snippets, terminal output, reports.

It recognises the shapes of keys and tokens, values labelled as secret, and secrets in command lines. It does not check
whether a key is real, and it does not change stored originals.
"""

from __future__ import annotations

import re

from tenfold.text.memoize import memoize

MASK = "[redacted]"

_KEY_BEGINNINGS = (
    "sk- sk_ pk- pk_ rk- rk_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox AKIA ASIA AIza eyJ hf_ npm_ pypi-"
    " dop_v1_ SG. whsec_ gsk_ xai- r8_ shpat_ tvly- pplx- lin_api_ ya29. hooks.slack -----BEGIN"
)
_SHAPE_HINTS = tuple(_KEY_BEGINNINGS.split())
_LABELS = ("key", "token", "secret", "passw", "passp", "pwd", "bearer", "basic ", "credential", "authorization")

_SHAPES = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:(?:sk|pk|rk)[-_](?:[A-Za-z]{2,10}[-_])*[A-Za-z0-9_-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{30,}"
    r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|dop_v1_[a-f0-9]{40,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|whsec_[A-Za-z0-9]{16,}"
    r"|(?:gsk_|xai-|r8_|shpat_|tvly-|pplx-|lin_api_)[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,})"
    r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}"
)
_WEB_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}+(?:(\.)[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+)?")
"""A JSON web token. A head alone is matched as well, without the group, so that no match starts inside it."""
_URL_LOGIN = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,100}:)([^\s/]{1,200})(@)")
_SCHEME = re.compile(r"(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    r"(\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:[A-Za-z-]{2,20}\s+)?)([A-Za-z0-9._~+/=:-]{8,})", re.IGNORECASE
)
_KEY_KINDS = ("api", "access", "secret", "private", "account", "signing", "encryption")
_SECRET_ENDINGS = (
    *(f"{kind}{sign}key" for kind in _KEY_KINDS for sign in ("", "[_-]")),
    *("secret", "token", "passwd", "password", "passphrase", "pwd", "credential", "credentials"),
)
"""How the names of secret values end."""
_LABEL = "|".join(f"(?<={end})" for end in _SECRET_ENDINGS)
_LABELLED_VALUE = re.compile(
    rf"((?<![\w-])[\w-]++(?:{_LABEL})"
    r"\\*[\"']?\s*(?:=|:)\s*(?:\[\s*)?\\*[\"']?)([^\s\"',;)}\]]{6,200})",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(rf"(?i:[\w.-]++(?:{_LABEL}))|[A-Z0-9_]{{1,40}}_KEY")
_PHRASE = re.compile(r"(passphrase\\*[\"']?\s*[=:]\s*\\*([\"']))([^\"'\n]{6,200})(?=\\*\2)", re.IGNORECASE)
_NAME_VALUE_PAIR = re.compile(
    rf"(\"(?:name|key)\\*\"\s*:\s*\\*\"[\w.-]++(?:{_LABEL}|(?<=key))\\*\"\s*,\s*\\*\"value\\*\"\s*:\s*\\*\")"
    r"([^\"\\]{6,200})",
    re.IGNORECASE,
)
"""A secret in a pair of name and value, the form in which settings are sent to a service."""
_ATTACHED_PASSWORD = re.compile(r"(\bmysql\w*(?:\s[^\n|;&]{0,200})?\s-p[\"']?)([^\s\"'/]{4,200})")
"""A password attached to its flag without a space, as MySQL's programs accept it."""
_ASSIGNMENT = re.compile(
    r"(?:key|secret|token|passwd|password|passphrase|pwd|credent(?:i\u0307?|\u0131)als?)"
    r"\\*[\"']?\s*[=:]\s*(?:\[\s*)?\\*[\"']?[^\s\"',;)}\]]{6}"
)
"""Matches the end of every match of `_LABELLED_VALUE`, in casefolded text. Most texts that mention a token assign none;
this pattern finds that out in a twentieth of the time."""
_FLAG = re.compile(
    r"(--(?:\w+-){0,4}(?:api-?key|access-?key|secret-?key|private-?key|client-?secret|secret|token|passwd|password"
    r"|passphrase|pwd|credentials?)\s+\\*[\"']?)([^\s\"',;)}\]-][^\s\"',;)}\]]{5,199})",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"((?:\s-u|\s--user)(?:\s+|=)\\*[\"']?[\w.@%+-]{1,64}:)([^\s\"'/][^\s\"']{5,199})")
_LONGEST_WORD = 12
"""Length of the longest word after a flag that is read as prose, as in "the --password option"."""
_SHORTEST_SECRET = 6
"""Length of the shortest value that counts as a secret because of its label."""
_HARMLESS_VALUE = re.compile(
    r"^(?:[\d.]{1,15}|true|false|none|null|undefined|string|number|\[redacted.*|[$<{(%].*|(?:~|\.{1,2})(?:/[\w.-]+)+"
    r"|/?(?:[\w-]+/)*[\w-]+\.(?:cfg|conf|crt|env|go|ini|java|jsx?|json|key|kt|log|md|pem|php|py|rb|rs|rst|sh|toml|tsx?"
    r"|txt|ya?ml))$",
    re.IGNORECASE,
)
_CODE_VALUE = re.compile(r"[$@]?[^\W\d][\w$]*[?!]?((?:(?:\.|::|->)[^\W\d][\w$]*[?!]?)*)(?:([(\[<]).*)?$")
"""A value that is code: `os.environ`, `settings.password`, `get_key(name)`."""
_DIGIT_THEN_LETTER = re.compile(r"\d[^\W\d_]")
"""A digit before a letter: common in passwords, rare in names of code."""


def redact(text: str) -> str:
    """Replaces secrets by `[redacted]`: keys known by their shape, and values labelled as key, token or password."""
    if any(map(text.__contains__, _SHAPE_HINTS)):
        text = _WEB_TOKEN.sub(lambda found: MASK if found[1] else found[0], text)
        text = _SHAPES.sub(MASK, text)
    if "://" in text:
        text = _URL_LOGIN.sub(rf"\1{MASK}\3", text)
    folded = text.casefold()
    if any(map(folded.__contains__, _LABELS)):
        if "bearer" in folded or "basic" in folded:
            text = _SCHEME.sub(rf"\1{MASK}", text)
        if "authorization" in folded:
            text = _AUTHORIZATION.sub(_mask_flag_value, text)
        if "passphrase" in folded:
            text = _PHRASE.sub(rf"\1{MASK}", text)
        if '"value' in folded:
            text = _NAME_VALUE_PAIR.sub(rf"\1{MASK}", text)
        if _ASSIGNMENT.search(folded):
            text = _LABELLED_VALUE.sub(_mask_labelled_value, text)
        if "--" in text:
            text = _FLAG.sub(_mask_flag_value, text)
    if "-u" in text:
        text = _LOGIN.sub(rf"\1{MASK}", text)
    if "mysql" in text:
        text = _ATTACHED_PASSWORD.sub(rf"\1{MASK}", text)
    return text


def redact_value(label: str, value: str) -> str:
    """Redacts a value that has a separate label, such as a field of an object or an argument of a tool call."""
    is_secret = _SECRET_NAME.fullmatch(label) is not None and len(value) >= _SHORTEST_SECRET
    return MASK if is_secret and not _is_harmless(value) else redact(value)


def _mask_flag_value(match: re.Match[str]) -> str:
    value = match.group(2)
    is_prose = value.rstrip(".").isalpha() and len(value) <= _LONGEST_WORD
    return match.group(0) if is_prose or _is_harmless(value) else match.group(1) + MASK


redact_cached = memoize(redact)
"""`redact` with a cache, for texts that are shown again and again, such as facts."""


def _mask_labelled_value(match: re.Match[str]) -> str:
    label, value = match.group(1).lower(), match.group(2).rstrip(".")
    is_word = value.isalpha() and (value.islower() or value.istitle())
    if _is_harmless(value) or (is_word and "pass" not in label and "pwd" not in label):
        return match.group(0)
    return match.group(1) + MASK


def _is_harmless(value: str) -> bool:
    """Whether a value labelled as secret is not one: a number, a word of a schema, a path, a piece of code."""
    if _HARMLESS_VALUE.match(value):
        return True
    code = _CODE_VALUE.match(value)
    return code is not None and any(code.groups()) and not _DIGIT_THEN_LETTER.search(value)
