"""Finds keys and tokens that are known by their form alone, such as `ghp_...` or a private key in PEM.

The forms are those that the services document. A text is first reduced to its long words, since looking for a hundred
beginnings in all of it would take longer than everything else.
"""

from __future__ import annotations

import re

from tenfold.core.text.secret_values import MASK

_SHORTEST_WORD = 19
"""Length of the shortest key: "sk-" and 16 characters."""
_WORD_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.~")
_WORD_MAP = bytes(ord("a") if code in _WORD_CHARACTERS else ord(" ") for code in range(256))
_LONG_WORD_START = b"a" * _SHORTEST_WORD
_LONG_WORD = re.compile(_LONG_WORD_START + b"a*+")
_DIGIT_MAP = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))

_LETTER_KEYS = [
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glptt-", "hf_", "api_org_", "gsk_", "r8_", "pplx-", "tvly-", "jina_",
    "csk-", "npm_", "lin_api_", "lin_oauth_", "ntn_", "shpat_", "shpss_", "shpca_", "shppa_", "dop_v1_", "doo_v1_",
    "dor_v1_", "nfp_", "sbp_", "sntryu_", "phx_", "phc_", "sgp_", "squ_", "sqp_", "sqa_", "pnu_", "bkua_", "whsec_",
    "rubygems_", "xkeysib-", "ATBB", "EZAK", "EZTK", "AGE-SECRET-KEY-1", "ABSK",
]  # fmt: skip
"""Beginnings of keys that go on with letters and digits."""
_SIGN_KEYS = [
    "github_pat_", "glpat-", "gldt-", "glrt-", "glft-", "glcbt-", "glsoat-", "glimt-", "glffct-", "glagent-",
    "GR1348941", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xoxe.", "xapp-",
    "xwfp-", "AIza", "ya29.", "GOCSPX-", "xai-", "lsv2_pt_", "lsv2_sk_", "pcsk_", "nvapi-", "hvs.", "hvb.", "hvr.",
    "ATATT3", "ATCTT3", "dckr_pat_", "dckr_oat_", "glsa_", "glc_", "pypi-", "dp.pt.", "dp.st.", "figd_", "sq0atp-",
    "sq0csp-", "HRKU-", "fm2_", "fo1_", "sb_secret_", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", "NRAK-", "NRAL-",
    "PMAK-", "CFPAT-", "tfp_", "CCIPAT_", "CCIPRJ_", "tskey-", "dt0c01.", "pat-na1-", "pat-eu1-", "duffel_",
    "FLWSECK-", "rdme_", "LTAI",
]  # fmt: skip
"""Beginnings of keys that go on with letters, digits, `_`, `-` and dots."""
_OTHER_KEYS = (
    (
        "sk- sk_ pk- pk_ rk- rk_",
        r"(?:sk|pk|rk)[-_](?:[A-Za-z]{2,10}[-_]){0,8}(?:(?=[A-Za-z_-]{0,100}\d)[A-Za-z0-9_-]{16,}|[A-Za-z]{32,})",
    ),
    ("AKIA ASIA", r"(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("tenfold_", r"tenfold_[0-9a-f]{12}_[A-Za-z0-9_-]{40,}"),
    ("SG.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("key-", r"key-[0-9a-f]{32}\b"),
    ("-us", r"[0-9a-f]{32}-us\d{1,2}\b"),
    ("dapi", r"dapi[0-9a-f]{32}(?:-\d)?\b"),
    ("pul-", r"pul-[0-9a-f]{40}\b"),
    ("re_", r"re_(?=\w{0,40}\d)(?=\w{0,40}[A-Z])[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("fw_", r"fw_(?=[A-Za-z]{0,100}\d)[A-Za-z0-9]{20,}"),
    ("pa-", r"pa-(?=[A-Za-z_-]{0,100}\d)(?=[a-z0-9_-]{0,100}[A-Z])[A-Za-z0-9_-]{40,}"),
    ("cio", r"cio(?=[A-Za-z]{0,100}\d)(?=[a-z0-9]{0,100}[A-Z])[A-Za-z0-9]{32}\b"),
    ("oy2", r"oy2[a-z0-9]{43}\b"),
    ("pat", r"pat(?=[A-Za-z]{0,100}\d)[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    ("sl.", r"sl\.(?=[A-Za-z_-]{0,100}\d)[A-Za-z0-9_-]{60,}"),
    ("s.", r"s\.(?=[A-Za-z]{0,100}\d)(?=[a-z0-9]{0,100}[A-Z])[A-Za-z0-9]{24}\b"),
    ("EAAA", r"EAAA(?=[A-Za-z_-]{0,300}\d)[A-Za-z0-9_-]{56,}"),
    ("SK", r"SK[0-9a-f]{32}\b"),
    ("Q~", r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    (".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    (".eyJ", r"(?:sk|pk)\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{16,}"),
    # Discord's tokens have no word of their own: the id of the bot, a time, and a signature.
    (".", r"[MNO](?=[A-Za-z_-]{0,26}\d)[A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![\w.-])"),
)
_NAMED_FORMS = (
    rf"(?:{'|'.join(map(re.escape, _LETTER_KEYS))})(?=[A-Za-z]*\d)[A-Za-z0-9]{{18,}}(?:-[A-Za-z0-9]{{12,}})?"
    rf"|(?:{'|'.join(map(re.escape, _SIGN_KEYS))})(?=[A-Za-z_.-]{{0,300}}\d)[A-Za-z0-9_.-]{{16,}}"
)
_NAMED_KEY = re.compile(rf"(?<![A-Za-z0-9_])(?:{_NAMED_FORMS})")
_STARTS = frozenset(beginning[:3] for beginning in (*_LETTER_KEYS, *_SIGN_KEYS))
_START = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9_.-]")
_OTHER_KEY_RULES = tuple(
    (hint, re.compile(form), re.compile(rf"(?<![A-Za-z0-9_])(?:{form})"))
    for hints, form in _OTHER_KEYS
    for hint in hints.split()
)
"""What must be in the text; the form wherever it begins, which is found quickly; the form at the start of a word."""
_WEB_TOKEN = re.compile(r"(?<![A-Za-z0-9_])eyJ[A-Za-z0-9_-]{8,}+(?:(\.)[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+)?")
"""A JSON web token. A head alone is matched as well, without the group, so that no match starts inside it."""
_BLOCK_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_PUTTY_KEY = re.compile(r"(Private-Lines:\s*\d+\s*)((?:(?:\d+\t)?[A-Za-z0-9+/=]{8,}\s*)+)")
_LONG_BASE64 = re.compile(r"(?:ops_eyJ|sntrys_|FlyV1 fm\d_|fm\d_)[A-Za-z0-9+/=_,-]{20,}")
_BOT_TOKEN = re.compile(r"(?<!\d)\d{6,12}:AA[A-Za-z0-9_-]{30,}")
_REFRESH_TOKEN = re.compile(r"(?<![\w/])1//0[A-Za-z0-9_-]{30,}")
_PASSWORD_HASH = re.compile(r"\$(?:[1567y]|2[abxy]|apr1|argon2(?:id|i|d)|scrypt|pbkdf2-\w+)\$[./A-Za-z0-9$=,+-]{13,}")
_CARD = re.compile(r"(?<![\w.-])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}|\d{13,19})(?![\w-]|\.\d)")
_CARD_FORMS = (b"0" * 13, b"0000 0000", b"0000-0000")
_CARD_NUMBER = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12}"
    r"|62\d{14,17}"
)
"""The beginnings and lengths of the numbers that the large card networks give out (ISO/IEC 7812)."""


def mask_keys(text: str) -> str:  # noqa: C901  one test for each family of keys
    """Replaces keys and tokens of a known form, hashes of passwords and the numbers of payment cards."""
    ascii_bytes = text.encode("ascii", "replace")  # one byte for each character, so that positions are the same
    words = _find_long_words(text, ascii_bytes)
    if words:
        if "eyJ" in words:
            text = _WEB_TOKEN.sub(lambda found: MASK if found[1] else found[0], text)
        if not _STARTS.isdisjoint(_START.findall(words)):
            text = _NAMED_KEY.sub(MASK, text) if _NAMED_KEY.search(words) else text
        for hint, quick_form, form in _OTHER_KEY_RULES:
            if hint in words and quick_form.search(words):
                text = form.sub(MASK, text)
        if ":AA" in text:
            text = _BOT_TOKEN.sub(MASK, text)
        if "1//0" in text:
            text = _REFRESH_TOKEN.sub(MASK, text)
    if "-----BEGIN" in text:
        text = _BLOCK_KEY.sub(MASK, text)
    if "Private-Lines" in text:
        text = _PUTTY_KEY.sub(rf"\1{MASK}\n", text)
    if "s_eyJ" in text or "fm2_" in text:
        text = _LONG_BASE64.sub(MASK, text)
    if "$" in text:
        text = _PASSWORD_HASH.sub(MASK, text)
    digits = ascii_bytes.translate(_DIGIT_MAP)
    if any(map(digits.__contains__, _CARD_FORMS)):
        text = _CARD.sub(_mask_card, text)
    return text


def _find_long_words(text: str, ascii_bytes: bytes) -> str:
    mapped = ascii_bytes.translate(_WORD_MAP)
    if _LONG_WORD_START not in mapped:
        return ""
    return " ".join(text[found.start() : found.end()] for found in _LONG_WORD.finditer(mapped))


def _mask_card(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match.group())
    return MASK if _CARD_NUMBER.fullmatch(digits) and _has_check_digit(digits) else match.group()


def _has_check_digit(digits: str) -> bool:
    """Whether the last digit is the one that the Luhn formula (ISO/IEC 7812-1) demands."""
    doubled = (sum(divmod(2 * int(d), 10)) for d in digits[-2::-2])
    return (sum(doubled) + sum(map(int, digits[-1::-2]))) % 10 == 0
