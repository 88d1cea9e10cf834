"""Requests and contexts of a framework, as its callbacks pass them: mappings, or objects with the same fields.

ADK's `LlmRequest` has `model`, `contents` and `config`, as the keyword arguments of a call to Gemini have. What a
compaction adds to its list becomes an object of the type that the list holds.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.wire import WIRES

_LIST_FIELDS = tuple(dict.fromkeys(wire.profile.request.list_field for wire in WIRES.values()))
_OTHER_FIELDS = tuple(
    dict.fromkeys(
        name
        for fields in (wire.profile.request for wire in WIRES.values())
        for name in (
            "model",
            *fields.overhead_fields,
            *fields.system_fields,
            *fields.output_fields,
            *fields.settings_fields,
            *fields.own_fields,
            *fields.partial_fields,
        )
    )
)


class Context(Struct, frozen=True):
    """Identifies a model call: its agent, its conversation, and the host's state.

    The state is a dictionary, or an object that is used like one. Of it, `todos` and the published keys are read. The
    keys are written too, where it can be written.
    """

    agent: str
    session: str = "default"
    state: Any = msgspec.field(default_factory=dict)


def read_context(context: Any) -> Context:  # noqa: ANN401 - a Context, or what a framework has in its place
    """Reads a framework's context: `agent_name`, `state`, and the id of its session.

    ADK's `CallbackContext` of earlier versions holds the session in its invocation alone.
    """
    if isinstance(context, Context):
        return context if context.state is not None else replace(context, state={})
    holders = (context, getattr(context, "_invocation_context", None))
    sessions = (getattr(holder, "session", None) for holder in holders)
    ids = (getattr(session, "id", None) for session in sessions)
    session = next((str(id_) for id_ in ids if id_), "default")
    state = getattr(context, "state", None)
    return Context(str(getattr(context, "agent_name", "")), session, {} if state is None else state)


def write_state(state: Any, values: Mapping[str, Any]) -> None:  # noqa: ANN401 - a dictionary, or what a framework has
    """Writes values into a state that can be written."""
    if hasattr(state, "__setitem__"):
        for key, value in values.items():
            state[key] = value


def read_fields(request: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a mapping, or a framework's own object
    """Reads the fields of a request. Returns None unless one of them is a conversation with something in it."""
    if isinstance(request, Mapping):
        fields = dict(request)
    else:
        values = ((name, getattr(request, name, None)) for name in (*_LIST_FIELDS, *_OTHER_FIELDS))
        fields = {name: value for name, value in values if value is not None}
    return fields if any(fields.get(name) for name in _LIST_FIELDS) else None


def write_fields(request: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:  # noqa: ANN401 - the same
    """Writes the changed fields back into the request that they were read from."""
    changed = {name: value for name, value in after.items() if before.get(name) is not value}
    for name, value in changed.items():
        if isinstance(request, MutableMapping):
            request[name] = value
        elif name in _LIST_FIELDS:
            setattr(request, name, _to_host_items(value, before[name]))
        else:
            setattr(request, name, value)


def _to_host_items(items: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """Returns the items, new ones in the type of the host's, where that type can be made of JSON."""
    kind = type(before[0])
    validate = getattr(kind, "model_validate_json", None)
    if validate is None:
        return list(items)
    return [item if isinstance(item, kind) else validate(msgspec.json.encode(item)) for item in items]
