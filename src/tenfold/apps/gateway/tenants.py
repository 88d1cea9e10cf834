"""Tells tenants apart: by every header, cookie and query parameter whose name says that it tells who sends a request.

A name that is missed lets one user's model look up what another has said; one that is taken in error only begins a new
session. So names count by their words, and of cookies all that are not known to be something else. What changes with
every request never counts, since no session could go on. Both tables are below, and nothing else decides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote

import msgspec

from tenfold.core.text.memoize import memoize_short

PROOF_ENDINGS = (
    *("auth", "authorization", "authentication", "secret", "password", "passwd", "passphrase", "passcode", "cookie"),
    *("jwt", "cred", "creds", "credential", "credentials", "cert", "certificate", "macaroon", "login"),
)
PROOF_WORDS = frozenset({
    "authn", "authz", "authenticated", "oauth2", "pass", "pwd", "bearer", "oidc", "saml", "sso", "assertion", "ticket",
    "dn", "upn", "behalf", "impersonate", "sudo", "claims", "userinfo",
})  # fmt: skip
"""A word of a name that is one of these, or ends in one of the endings (`helicone-auth`, `accessToken`), proves who
sends the request, whatever stands beside it."""
TOKEN_ENDINGS = ("key", "keyid", "token", "signature")
TOKEN_WORDS = frozenset({
    "sig", "sid", "uid", "oid", "pat", "vk", "ak", "sk", "pw", "pin", "tok", "authtok", "hmac", "fingerprint",
    "license",
})  # fmt: skip
NO_TOKENS = frozenset({"portkey", "monkey", "hotkey", "turnkey"})
OWNER_WORDS = frozenset({
    "user", "username", "userid", "enduser", "account", "accountid", "tenant", "tenantid", "org", "orgid",
    "organization", "organizationid", "organisation", "project", "projectid", "customer", "customerid", "workspace",
    "team", "member", "owner", "subject", "principal", "identity", "email", "useremail", "enduserid", "mail", "phone",
    "consumer", "consumerid", "caller", "callerid", "requester", "actor", "guest", "visitor", "person", "employee",
    "student", "patient", "subscriber", "subscription", "profile", "persona", "player", "company", "department",
    "realm", "partner", "merchant", "clientid", "appid", "wallet", "nickname", "handle", "acct", "cid",
})  # fmt: skip
"""Names that end in one of these, apart from what follows in `_OF_OWNERS`, say whose a request is (`x-user-email`)."""
_OF_OWNERS = frozenset({"id", "uuid", "guid", "name", "hash", "login", "role"})
CREDENTIAL_NAMES = frozenset({"code", "from"})
"""Whole names: `code` is where Azure's functions take their key, `From` the address of who sends a request."""
REQUEST_WORDS = frozenset({
    "request", "req", "trace", "traceparent", "tracestate", "span", "correlation", "retry", "attempt", "idempotency",
    "nonce", "csrf", "xsrf", "captcha", "recaptcha", "turnstile", "challenge", "sentinel", "websocket", "cache", "page",
    "turn", "message", "event", "interaction", "prompt", "completion", "invocation", "operation",
    "transaction", "call", "step", "sequence", "generation", "response", "inference", "dedup", "dedupe",
    "deduplication", "unique", "random", "once", "continuation", "resume", "cursor", "usage", "telemetry", "tracking",
})  # fmt: skip
"""A key, a token or an id of one of these changes with every request (`idempotency-key`), or is none of a user's."""
_REQUEST_ENDINGS = frozenset({
    "timestamp", "time", "date", "nonce", "expires", "expiry", "expiration", "count", "limit", "budget", "attempt",
})  # fmt: skip
CHANGING_NAMES = frozenset({"x-amz-signature", "x-goog-signature", "x-tenfold-key"})
"""Signatures of one request, whose signer stands in `x-amz-credential`, and the gateway's own key, which all have."""
OTHER_COOKIES = re.compile(
    r"_ga|_gid|_gat|_gcl|_dc_gtm|__utm|_fb[pc]$|_hj|_uet|_cl[cs]k|_pk_|_dd_s|ajs_|mp_|ph_|amp_|amplitude|intercom-"
    r"|optanon|cookieconsent|__cf|_cf|cf_(?!auth)|awsalb|awselb|arraffinity|bigip|ingresscookie|serverid|incap_|visid_"
    r"|ak_bmsc|bm_s|(?:x-?)?[cx]srf|sentry-",
    re.IGNORECASE,
)
"""How the names of cookies begin that count visits, balance loads or guard forms. They change while a user stays."""
_SIGNED = re.compile(r"(?:^|[\s,;&])(?:oauth_)?(?:signature|sig|response|created)=", re.IGNORECASE)
_SIGNER = re.compile(
    r"(?:^|[\s,;&])(?:credential|key_?id|username|oauth_token|(?:oauth_consumer|consumer|access|client)_?(?:key|token)"
    r"(?:_?id)?|sr|skn)=\"?([^\",;&\s/]+)",
    re.IGNORECASE,
)
"""Who has signed a request, in the parameters beside the signature: AWS's version 4, OAuth 1, Digest and the like."""
_SCOPE = re.compile(r"([^/\s]+)/\d{8}/\S+_request")
_ACCOUNT = re.compile(r"(?:AWS|SharedKey|SharedKeyLite) ([^:\s]+):\S+")
_SIGNED_NAMES = ("authorization", "credential", "signature-input")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def digest_credentials(headers: Mapping[str, str], query: str = "", more: Iterable[str] = ()) -> str:
    """Returns who sends a request, as a digest of its credentials. Nothing of them can be read from it.

    The names of `headers` are in lower case; `more` are those that count besides the ones that the tables name.
    """
    given = sorted(_list_credentials(headers, query, {name.lower() for name in more}))
    return hashlib.sha256(b"tenfold-tenant\0" + msgspec.json.encode(given)).hexdigest()[:16]


def _list_credentials(headers: Mapping[str, str], query: str, more: set[str]) -> Iterator[tuple[str, str, str]]:
    for name, value in headers.items():
        if name == "cookie" and name not in more:
            yield from (("cookie", *cookie) for cookie in _list_cookies(value))
        elif name in more or (is_credential(name) and not (name == "signature" and "signature-input" in headers)):
            yield "header", name, find_signer(value) if name.endswith(_SIGNED_NAMES) else value
    for name, value in parse_qsl(query, encoding="latin-1"):
        if name.lower() in more or is_credential(name):
            yield "query", name, find_signer(value) if name.lower().endswith(_SIGNED_NAMES) else value


def keep_credentials(query: str) -> str:
    """Returns only those parameters of a query that tell who sends the request, as they are written."""
    return "&".join(each for each in query.split("&") if is_credential(unquote(each.partition("=")[0])))


@memoize_short(1_024)
def is_credential(name: str) -> bool:
    """Whether a header or a query parameter of this name tells who sends a request, and stays while a session lasts."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or name.lower() in CHANGING_NAMES or words[-1] in _REQUEST_ENDINGS:
        return False
    if len(words) > 1 and words[-1] in _OF_OWNERS and words[-2] in REQUEST_WORDS:
        return False
    if any(word in PROOF_WORDS or word.endswith(PROOF_ENDINGS) for word in words):
        return True
    return REQUEST_WORDS.isdisjoint(words) and (
        name.lower() in CREDENTIAL_NAMES
        or any(word in TOKEN_WORDS or (word.endswith(TOKEN_ENDINGS) and word not in NO_TOKENS) for word in words)
        or next((word for word in reversed(words) if word not in _OF_OWNERS), "") in OWNER_WORDS
        or "".join(words[-2:]) in OWNER_WORDS
    )


def find_signer(value: str) -> str:
    """Returns what of a credential stays from request to request: of a signed one who has signed it, else all of it."""
    if signer := _SCOPE.fullmatch(value) or _ACCOUNT.fullmatch(value):
        return signer[1]
    return " ".join(_SIGNER.findall(value) if _SIGNED.search(value) else []) or value


def _list_cookies(value: str) -> Iterator[tuple[str, str]]:
    for each in value.split(";"):
        name, _, content = each.strip().partition("=")
        if content and not OTHER_COOKIES.match(name):
            yield name, content
