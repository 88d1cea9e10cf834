"""Keys of persons and programs, and the record of who did what: both belong to a store and are the same in each.

A key's text is shown once, when it is made. The store keeps a digest of it. The record is append-only, and each line
holds a hash over the one before, so that a line that was changed or taken out is noticed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from tenfold.errors import UsageError

KEY_PREFIX = "tenfold_"
"""How every key begins, so that it is told from a provider's key and found by scanners for secrets."""
_ID_BYTES, _SECRET_BYTES = 6, 32
_KEY = re.compile(rf"{KEY_PREFIX}([0-9a-f]{{{2 * _ID_BYTES}}})_([\w-]{{40,}})")
_NAME = re.compile(r"[\w .@+-]{1,80}")
_encoder = msgspec.msgpack.Encoder()


class AccessKey(Struct, frozen=True):
    """A key as it is stored. Times are in microseconds UTC; 0 is never.

    It sees one namespace. With `is_read_only` nothing can be written with it. `max_requests` run at a time, and
    requests are refused while its namespace takes more than `max_bytes`, and jobs while `max_jobs` of its namespace
    wait; 0 sets no limit. `digest` is the SHA-256 of
    the key's secret part, which is random and 32 bytes long, so that nothing slower is needed.
    """

    id: str
    name: str
    namespace: str
    digest: bytes
    created: int
    is_read_only: bool = False
    expires: int = 0
    revoked: int = 0
    max_requests: int = 0
    max_bytes: int = 0
    max_jobs: int = 0

    def is_valid(self, now: int) -> bool:
        """Tells whether the key may be used at this time."""
        return not self.revoked and not 0 < self.expires <= now


class AccessRecord(Struct, frozen=True):
    """A line of the record: when, who (the name of a key, or of a user of the machine), where from, what, and to what.

    `hash` covers the line and the hash of the one before.
    """

    number: int
    time: int
    actor: str
    source: str
    action: str
    namespace: str
    target: str
    hash: bytes = b""


def create_key(name: str, namespace: str, now: int) -> tuple[AccessKey, str]:
    """Makes a key, and the text that is to be given to whoever is to use it. Raises `UsageError` for a wrong name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a key: 1 to 80 letters, digits, spaces and . @ + - _")
    id_, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
    key = AccessKey(id_, name, namespace, hash_secret(secret), now)
    return key, f"{KEY_PREFIX}{id_}_{secret}"


def parse_key(text: str) -> tuple[str, bytes] | None:
    """Returns the id of a key and the digest of its secret, None for a text that is no key."""
    match = _KEY.fullmatch(text)
    return (match[1], hash_secret(match[2])) if match is not None else None


def hash_secret(secret: str) -> bytes:
    """Returns the digest that is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def seal_record(record: AccessRecord, before: bytes) -> AccessRecord:
    """Returns a line with its hash. `before` is that of the line before, b"" for the first."""
    plain = msgspec.structs.replace(record, hash=b"")
    return msgspec.structs.replace(plain, hash=hashlib.sha256(before + _encoder.encode(plain)).digest())


def find_broken_record(records: Iterable[AccessRecord]) -> int:
    """Returns the number of the first line that is not as it was written, or that follows a gap. 0 if all are."""
    before = b""
    for number, record in enumerate(records, 1):
        if record.number != number or seal_record(record, before) != record:
            return number
        before = record.hash
    return 0
