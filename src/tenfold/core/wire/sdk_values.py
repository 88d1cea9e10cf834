"""Turns what a host passes in, plain values or objects of a provider's SDK, into JSON, text and mappings."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Protocol, runtime_checkable

import msgspec

from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.wire.given_values import explain_item, find_foreign_type
from tenfold.errors import BadInput


@runtime_checkable
class _SDKObject(Protocol):
    """A typed object of a provider's SDK."""

    def model_dump(
        self, *, mode: str = ..., by_alias: bool = ..., exclude_unset: bool = ..., exclude_none: bool = ...
    ) -> dict[str, Any]: ...


def to_json_bytes(message: object) -> bytes:
    """Returns a native message as JSON bytes. Bytes and text are taken as they are; a dict or SDK object is encoded.

    Raises `BadInput` for anything else, also for an SDK object that is known to be no provider's message. The error
    says what it is and what converts it.
    """
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        return message.encode("utf-8", "replace")
    if type(message) is not dict and (
        not isinstance(message, Mapping | _SDKObject) or find_foreign_type(message) is not None
    ):
        raise BadInput(explain_item(message))
    return encode_value(message)


def encode_messages(messages: Iterable[object], first: int = 0) -> list[bytes]:
    """Returns native messages as JSON bytes. Raises `BadInput` with the number of what is none.

    `first` is the number of the first one.
    """
    raws: list[bytes] = []
    for message in messages:
        try:
            raws.append(to_json_bytes(message))
        except BadInput as exc:
            raise BadInput(f"item {first + len(raws)}: {exc}") from exc
    return raws


def encode_value(value: object) -> bytes:
    """Encodes a value of a native message as JSON. Raises `BadInput` if JSON cannot hold it."""
    try:
        try:
            return msgspec.json.encode(value, enc_hook=_to_plain)
        except UnicodeEncodeError:
            return msgspec.json.encode(replace_surrogates(msgspec.to_builtins(value, enc_hook=_to_plain)))
    except RecursionError as exc:
        raise BadInput(
            "a message is nested too deeply to be written as JSON, or holds itself; pass plain dicts, lists, texts and "
            "numbers"
        ) from exc
    except (TypeError, ValueError) as exc:
        raise BadInput(f"a message holds what JSON cannot: {exc}; pass plain dicts, lists, texts and numbers") from exc


def render_value(value: object) -> str:
    """Returns a value as a text whose tokens can be counted: a text as it is, anything else as JSON if JSON holds it.

    Tools may be functions of the host, which JSON does not hold.
    """
    if isinstance(value, str):
        return value
    try:
        return encode_value(value).decode()
    except BadInput:
        return str(value)


def get_set_fields(value: object) -> Mapping[str, Any] | None:
    """Returns a mapping as it is, or the fields of an object: of an SDK, a dataclass, or a plain one.

    Returns None for a value that has none, such as a text, a number or a list.
    """
    if isinstance(value, Mapping):
        return value
    if isinstance(value, _SDKObject):
        return value.model_dump(exclude_unset=True)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return vars(value) if hasattr(value, "__dict__") else None


def _to_plain(value: object) -> object:
    if isinstance(value, _SDKObject):
        has_set = type(value).__module__.startswith(("openai.", "anthropic."))  # others keep what a class gives
        return value.model_dump(mode="json", by_alias=True, exclude_unset=has_set, exclude_none=not has_set)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, str):  # a subclass, such as numpy's
        return str.__str__(value)
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    raise TypeError(f"a value of type {type(value).__name__}")
