"""Finds secrets in command lines, where a flag or the position says what a word is."""

from __future__ import annotations

import re
from collections.abc import Callable

from tenfold.core.text.secret_values import MASK, is_harmless, is_password, is_prose

_VALUE = r"""([^\s"'|;&<>]{4,200})"""
_QUOTE = r"""\\*["']?"""
_FLAG = re.compile(
    r"(--(?:\w+-){0,4}(?:api-?key|access-?key|secret-?key|private-?key|client-?secret|secret|token|passwd|password"
    r"|passphrase|pass|pwd|credentials?)(?:\s+|=)\\*[\"']?)([^\s\"',;)}\]-][^\s\"',;)}\]]{5,199})",
    re.IGNORECASE,
)
_LOGIN = re.compile(rf"((?:\s-u|\s--user)(?:\s+|=){_QUOTE}[\w.@%+-]{{1,64}}:)([^\s\"'/][^\s\"']{{5,199}})")
_KEY_AS_USER = re.compile(rf"(\bcurl\b[^\n|;]{{0,200}}?\s(?:-u|--user)\s+{_QUOTE})([A-Za-z0-9_-]{{16,200}})(?=:)")
_ARGUMENTS = r"(?:\s[^\n|;&]{0,200}?)?"

_Rule = tuple[str, re.Pattern[str], Callable[[str], bool]]


def _is_any(value: str) -> bool:
    return not is_harmless(value)


def _is_no_word(value: str) -> bool:
    return not is_prose(value) and not is_harmless(value)


_RULES: tuple[_Rule, ...] = (
    ("mysql", re.compile(rf"(\bmysql\w*(?:\s[^\n|;&]{{0,200}})?\s-p{_QUOTE})([^\s\"'/]{{4,200}})"), _is_any),
    ("sshpass", re.compile(rf"(\bsshpass\s+-p\s*{_QUOTE}){_VALUE}"), _is_any),
    ("login", re.compile(rf"(\blogin\b{_ARGUMENTS}\s-p\s*{_QUOTE}){_VALUE}"), _is_any),
    ("login", re.compile(rf"(\bvault\s+login\s+{_QUOTE}){_VALUE}"), is_password),
    ("login", re.compile(r"(\blogin\s+\S{1,100}\s+password\s+)(\S{4,200})"), _is_no_word),
    ("login", re.compile(rf"(\blogin\b[^\n]{{0,200}}<<<\s*{_QUOTE}){_VALUE}"), _is_any),
    ("login", re.compile(rf"(\becho\s+(?:-n\s+)?{_QUOTE}){_VALUE}(?={_QUOTE}\s*\|[^\n]{{0,80}}\blogin\b)"), _is_any),
    ("redis-cli", re.compile(rf"(\bredis-cli{_ARGUMENTS}\s-a\s+{_QUOTE}){_VALUE}"), _is_any),
    ("mongo", re.compile(rf"(\bmongo\w*{_ARGUMENTS}\s-p\s*{_QUOTE}){_VALUE}"), _is_any),
    ("sqlcmd", re.compile(rf"(\bsqlcmd{_ARGUMENTS}\s-P\s*{_QUOTE}){_VALUE}"), _is_any),
    ("smbclient", re.compile(rf"(\bsmbclient{_ARGUMENTS}\s-U\s*{_QUOTE}[^\s%]{{1,64}}%){_VALUE}"), _is_any),
    ("ldap", re.compile(rf"(\bldap\w+{_ARGUMENTS}\s-w\s*{_QUOTE}){_VALUE}"), _is_any),
    ("pass:", re.compile(rf"(\s-pass(?:in|out)?\s+{_QUOTE}pass:){_VALUE}"), _is_any),
    ("sudo", re.compile(rf"(\becho\s+(?:-n\s+)?{_QUOTE}){_VALUE}(?={_QUOTE}\s*\|\s*sudo\s+-\w*S)"), _is_any),
    (
        "chpasswd",
        re.compile(rf"(\becho\s+(?:-n\s+)?{_QUOTE}[\w.-]{{1,64}}:){_VALUE}(?={_QUOTE}\s*\|[^\n]*chpasswd)"),
        _is_any,
    ),
    ("htpasswd", re.compile(rf"(\bhtpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+{_QUOTE}){_VALUE}"), _is_any),
    ("zip", re.compile(rf"(\b(?:un)?zip{_ARGUMENTS}\s-P\s*{_QUOTE}){_VALUE}"), _is_any),
    ("7z", re.compile(rf"(\b7z\w*{_ARGUMENTS}\s-p{_QUOTE}){_VALUE}"), _is_any),
    ("ssh-keygen", re.compile(rf"(\bssh-keygen{_ARGUMENTS}\s-[NP]\s*{_QUOTE}){_VALUE}"), _is_any),
    ("aws configure", re.compile(rf"(\baws\s+configure\s+set\s+\S*(?:key|token)\S*\s+{_QUOTE}){_VALUE}"), is_password),
    ("net user", re.compile(rf"(\bnet\s+user\s+\S+\s+{_QUOTE}){_VALUE}"), is_password),
    ("SecureString", re.compile(rf"(ConvertTo-SecureString\s+(?:-String\s+)?{_QUOTE}){_VALUE}"), _is_any),
)
"""For each program: what a text must contain, the pattern, whose group 2 is the secret, and which values count."""


def mask_command_secrets(text: str) -> str:
    """Replaces secrets in command lines."""
    if "--" in text:
        text = _mask(_FLAG, _is_no_word, text)
    if "-u" in text:
        text = _mask(_LOGIN, _is_any, text)
        text = _KEY_AS_USER.sub(rf"\1{MASK}", text) if "curl" in text else text
    for hint, pattern, is_secret in _RULES:
        if hint in text:
            text = _mask(pattern, is_secret, text)
    return text


def _mask(pattern: re.Pattern[str], is_secret: Callable[[str], bool], text: str) -> str:
    return pattern.sub(lambda found: found[1] + MASK if is_secret(found[2]) else found[0], text)
