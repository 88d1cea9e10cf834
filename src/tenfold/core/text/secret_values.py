"""Tells whether a value in the place of a secret is one, or a placeholder, a reference or a piece of code.

It judges the value alone. Which places call for a secret is known by the modules that find them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MASK = "[redacted]"
SHORTEST_SECRET = 6
"""Length of the shortest value that counts as a secret because of its label."""
_SHORTEST_KEY = 16
_LONGEST_WORD = 12
"""Length of the longest word after a flag that is read as prose, as in "the --password option"."""
_HARMLESS_VALUE = re.compile(
    r"^(?:[\d.]{1,15}|true|false|none|null|undefined|string|number|\[?redacted.*|[$<{(%].*|(?:~|\.{1,2})(?:/[\w.-]+)+"
    r"|[x*.#_?-]+|[\w-]{0,12}\.{1,3}|(?:your|change|example|dummy|placeholder|insert|enter)\w*(?:-\w+)*"
    r"|pass(?:word|wd|phrase)?|secret|token|api_?key"
    r"|/?(?:[\w-]+/)*[\w-]+\.(?:cfg|conf|crt|env|go|ini|java|jsx?|json|key|kt|log|md|pem|php|py|rb|rs|rst|sh|toml|tsx?"
    r"|txt|ya?ml))$",
    re.IGNORECASE,
)
_CODE_VALUE = re.compile(r"[$@]?[^\W\d][\w$]*[?!]?((?:(?:\.|::|->)[^\W\d][\w$]*[?!]?)*)(?:([(\[<]).*)?$")
"""A value that is code: `os.environ`, `settings.password`, `get_key(name)`."""
_DIGIT_THEN_LETTER = re.compile(r"\d[^\W\d_]")
"""A digit before a letter: common in passwords, rare in names of code."""
_STATEMENT_WORD = re.compile(
    r"(?:\w+(?:ed|able|ible|ory|ing|ent|ant|ect|ful|less|ful|ly|ted|ken|wn|ve)|wrong|bad|good|fine|ok|okay|valid|invalid"
    r"|empty|too|long|short|weak|strong|safe|secret|plain|same|different|known|unknown|null|none|set|unset|optional"
    r"|public|private|case|sensitive|here|there|yours|mine|what|that|this|something|someone|nothing|anything|only|also"
    r"|never|always|still|their|after|before|again|today|password|passphrase)",
    re.IGNORECASE,
)
"""A word by which a sentence says something of a password, as in "the password is required", not what it is."""


def is_harmless(value: str) -> bool:
    """Whether a value labelled as secret is not one: a number, a word of a schema, a path, a piece of code."""
    if _HARMLESS_VALUE.match(value):
        return True
    code = _CODE_VALUE.match(value)
    return code is not None and any(code.groups()) and not _DIGIT_THEN_LETTER.search(value)


def is_prose(value: str) -> bool:
    """Whether a value is a short word of a sentence."""
    return value.rstrip(".").isalpha() and len(value) <= _LONGEST_WORD


def is_password(value: str) -> bool:
    """Whether a value has letters and digits and is no placeholder or code, as most passwords are."""
    return (
        len(value) >= SHORTEST_SECRET
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and not is_harmless(value)
    )


def is_strong_password(value: str) -> bool:
    """Whether a value can hardly be anything but a password: it has capitals, small letters and digits, or signs."""
    if not is_password(value):
        return False
    has_both_cases = any(map(str.isupper, value)) and any(map(str.islower, value))
    return has_both_cases or any(c in "!#%^&*?~" for c in value)


def is_word_as_password(value: str) -> bool:
    """Whether a word that ends a sentence about a password is the password, and says nothing else of it."""
    return len(value) >= SHORTEST_SECRET and not is_harmless(value) and not _STATEMENT_WORD.fullmatch(value)


def is_key(value: str) -> bool:
    """Whether a value is as long and mixed as a generated key."""
    return len(value) >= _SHORTEST_KEY and is_password(value) and "/" not in value[:2]


def is_suspect(value: str) -> bool:
    """Whether a value may be a secret: it is not harmless."""
    return not is_harmless(value)


def mask_values(
    pattern: re.Pattern[str], text: str, is_secret: Callable[[str], bool] = is_suspect, *, group: int = 2
) -> str:
    """Replaces in each match the value, which is that `group`, if it is a secret. What stands before it is group 1."""
    return pattern.sub(lambda found: found[1] + MASK if is_secret(found[group]) else found[0], text)
