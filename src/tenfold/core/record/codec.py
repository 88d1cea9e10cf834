"""Encodes entries to bytes and decodes them. Every schema version ever written can still be read.

The stored bytes of an entry, its body, are one version byte followed by the tagged struct as MessagePack.
`SCHEMA_VERSION` is the version this release writes; `_UPGRADES` holds one function for each older version. Unknown or
missing data in Tenfold's own records raises `RecordError` with the path inside the record; nothing is defaulted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from tenfold.core.record.entry import Entry, Tombstone
from tenfold.core.record.upgrades import convert_facts
from tenfold.errors import RecordError

SCHEMA_VERSION = 2
_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)
_UPGRADES: dict[int, Callable[[bytes], bytes]] = {1: convert_facts}
_VERSION_BYTE = bytes([SCHEMA_VERSION])


def encode_entry(entry: Entry) -> bytes:
    """Encodes an entry to its canonical bytes: equal entries give equal bytes."""
    return _VERSION_BYTE + _encoder.encode(entry)


def decode_entry(data: bytes) -> Entry:
    """Decodes an entry. Raises `RecordError`, with the path inside the record, if the bytes are not valid."""
    if not data:
        raise RecordError("empty record: the store holds a row without a body; run `tenfold verify`")
    version, body = data[0], data[1:]
    if version != SCHEMA_VERSION and version not in _UPGRADES:
        raise RecordError(
            f"record schema {version} is not one this release reads (up to {SCHEMA_VERSION}); upgrade tenfold"
        )
    try:
        for earlier in range(version, SCHEMA_VERSION):
            body = _UPGRADES[earlier](body)
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise RecordError(f"a stored record does not validate: {exc}; run `tenfold verify`") from exc


def hash_body(body: bytes) -> bytes:
    """Returns the SHA-256 of canonical bytes, which is all that a tombstone keeps of a purged entry."""
    return hashlib.sha256(body).digest()


def compute_chain_hash(parent: bytes, entry: Entry, body: bytes) -> bytes:
    """Returns SHA-256(parent hash + SHA-256(canonical bytes)). For a tombstone, the body hash it kept is used."""
    own = entry.body_hash if isinstance(entry, Tombstone) else hashlib.sha256(body).digest()
    return hashlib.sha256(parent + own).digest()
