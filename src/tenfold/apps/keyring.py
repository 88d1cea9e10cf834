"""The keys that a server takes: one of its own, and those of the store, which `tenfold keys` makes.

A store that has a key takes no request without one. What a key may is looked up again after a few seconds, so that a
key that was revoked ends soon, and a request waits for the store only then.
"""

from __future__ import annotations

import getpass
import os
import threading
import time
from hmac import compare_digest

from msgspec import Struct

from tenfold.errors import StoreError
from tenfold.store.access import AccessKey, AccessRecord, parse_key
from tenfold.store.base import Store
from tenfold.store.ids import get_current_time

ACCESS = "tenfold.access"
"""Where a server notes, in the scope of a request, what its key may."""
MEMORY_SECONDS = 5.0
"""For how long what is known of a key is believed."""
_MOST_KNOWN = 4_096


class Access(Struct, frozen=True):
    """What a request may: on which namespace, and as whom. `key` is None for the server's own key, or without any."""

    namespace: str
    key: AccessKey | None = None

    @property
    def owner(self) -> str:
        """The id of the key, by which its sessions are told from those of others."""
        return self.key.id if self.key is not None else ""

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be written."""
        return self.key is not None and self.key.is_read_only


class Keyring:
    """Looks keys up in a store. `own_key` is the server's, "" without one, and opens `namespace`.

    Where `is_private`, whoever reaches the server has the store itself, and needs no key of it.
    """

    def __init__(self, store: Store, *, own_key: str, namespace: str, is_private: bool = False) -> None:
        self._store, self._own_key, self._namespace, self._is_private = store, own_key, namespace, is_private
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, AccessKey | None]] = {}
        self._has_keys: tuple[float, bool] = (0.0, False)

    def is_key_needed(self) -> bool:
        """Tells whether a request needs a key. Reads the store at times."""
        if self._own_key or self._is_private:
            return bool(self._own_key)
        until, has_keys = self._has_keys
        if time.monotonic() >= until:
            try:
                has_keys = has_keys or bool(self._store.list_keys())
            except StoreError:
                if not until:  # it was never known
                    raise
            self._has_keys = time.monotonic() + MEMORY_SECONDS, has_keys
        return has_keys

    def is_fresh(self, given: str) -> bool:
        """Tells whether `open` can answer for this key from memory."""
        now, parsed = time.monotonic(), parse_key(given)
        if parsed is None:
            return bool(self._own_key) or self._is_private or now < self._has_keys[0]
        return now < self._known.get(parsed[0], (0.0, None))[0]

    def open(self, given: str) -> Access | None:
        """Returns what a request with this key ("" for none) may, None for one that is not taken.

        While the store cannot be read, what was known last counts. Raises `StoreError` if nothing was.
        """
        if self._own_key and compare_digest(given.encode(), self._own_key.encode()):
            return Access(self._namespace)
        parsed = parse_key(given)
        if parsed is None:
            return None if self.is_key_needed() else Access(self._namespace)
        id_, digest = parsed
        key = self._find(id_)
        if key is None or not compare_digest(key.digest, digest) or not key.is_valid(get_current_time()):
            return None
        return Access(key.namespace, key)

    def _find(self, id_: str) -> AccessKey | None:
        with self._lock:
            until, key = self._known.get(id_, (0.0, None))
        if time.monotonic() < until:
            return key
        try:
            key = self._store.find_key(id_)
        except StoreError:
            if not until:
                raise
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[id_] = time.monotonic() + MEMORY_SECONDS, key
        return key

    def note(self, access: Access, source: str, action: str, target: str) -> None:
        """Notes what was done with a key, if it was done with one of the store's."""
        if access.key is not None:
            record = AccessRecord(0, get_current_time(), access.key.name, source, action, access.namespace, target)
            self._store.record_access(record)


def note_access(store: Store, namespace: str, action: str, target: str, *, source: str = "command") -> None:
    """Notes in a store that has keys what the user of this machine did, by a command or by a program of his."""
    if store.list_keys():
        store.record_access(AccessRecord(0, get_current_time(), _find_user(), source, action, namespace, target))


def _find_user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # in a container a user may have a number and no name, on Windows neither
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"


def find_given_key(headers: list[tuple[bytes, bytes]], name: str) -> tuple[str, list[tuple[bytes, bytes]]]:
    """Finds the key of a request: in the header of that name, else in `Authorization` or `x-api-key` if it is ours.

    Returns it, "" if there is none, and the headers without it: a provider never sees it.
    """
    given, rest = "", list[tuple[bytes, bytes]]()
    for header, value in headers:
        header_name, text = header.decode("latin-1").lower(), value.decode("latin-1").strip()
        bare = text[7:].strip() if text[:7].lower() == "bearer " else text
        is_own = header_name == name or (header_name in ("authorization", "x-api-key") and parse_key(bare) is not None)
        if is_own:
            given = given or bare
        else:
            rest.append((header, value))
    return given, rest
