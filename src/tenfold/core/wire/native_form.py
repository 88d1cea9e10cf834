"""What a provider accepts as one native message: which fields, of which JSON types, with which parts in them.

Each wire writes it down as a table, its `MessageForm`. `find_form_faults` holds one message against the table. How
messages depend on one another is not decided here: that is what the rules in `tenfold.core.view` are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

JsonType = Literal["text", "object", "list", "number", "boolean", "null"]
FormRule = Literal[
    "message_form", "known_role", "content_form", "known_part", "part_fields", "call_id", "item_id", "thinking_signed"
]
"""The rules that a single message can break, whatever stands around it."""
_TYPE_NAMES: tuple[tuple[type, JsonType], ...] = (
    (str, "text"),
    (dict, "object"),
    (list, "list"),
    (bool, "boolean"),
    (int, "number"),
    (float, "number"),
)
_SHOWN_CHARS = 60


class ValueForm(Struct, frozen=True, kw_only=True):
    """What may stand under a key.

    `rule` is broken by a value of another type than `types`, and by a missing value, unless the value is optional or
    one of the fields `unless` is there. An optional value may be null. A text has to match `pattern`; if
    it does not, `advice` is what to do. A text needs `least` characters, a list as many elements. `parts` are the forms
    of a list's elements, `fields` those of an object's values.
    """

    types: tuple[JsonType, ...] = ("text",)
    rule: FormRule = "part_fields"
    is_required: bool = True
    unless: tuple[str, ...] = ()
    pattern: str = ""
    advice: str = ""
    least: int = 0
    parts: PartForms | None = None
    fields: Mapping[str, ValueForm] = {}


class PartForms(Struct, frozen=True, kw_only=True):
    """The elements that a list may hold: the fields of each kind.

    The kind is the text under `tag`, `default` if there is none. Without a `tag`, the kind is the one field of `kinds`
    that the element has. Kinds that match `others` are accepted unseen.
    """

    kinds: Mapping[str, Mapping[str, ValueForm]]
    tag: str = "type"
    default: str = ""
    others: str = ""


class MessageForm(Struct, frozen=True, kw_only=True):
    """The messages that a provider accepts: the fields of each role, and of each kind of item without a role.

    `default_role` is that of a message which names none.
    """

    roles: Mapping[str, Mapping[str, ValueForm]]
    items: PartForms | None = None
    default_role: str = ""


def make_unseen(*kinds: str) -> Mapping[str, Mapping[str, ValueForm]]:
    """Makes the forms of parts of which nothing but the type is checked."""
    return {kind: {} for kind in kinds}


def make_content(parts: PartForms, unless: tuple[str, ...] = ()) -> Mapping[str, ValueForm]:
    """Makes the form of a field `content` that holds a text or a list of parts."""
    return {"content": ValueForm(types=("text", "list"), rule="content_form", parts=parts, unless=unless)}


class FormFault(Struct, frozen=True):
    """One place in a message that its provider refuses. `path` leads there from the message: `content[1].input`."""

    rule: FormRule
    path: str
    problem: str


def find_form_faults(native: object, form: MessageForm) -> Iterator[FormFault]:
    """Yields what a provider refuses in a native message by itself, in the order of its fields."""
    if not isinstance(native, dict):
        found = "null or broken JSON" if native is None else _describe(native)
        yield FormFault("message_form", "", f"a message is an object, not {found}; pass the messages themselves")
        return
    kind = native.get("type")
    is_own_item = isinstance(kind, str) and form.items is not None and kind in form.items.kinds  # some have a role, too
    if form.items is not None and kind != "message" and ("role" not in native or is_own_item):
        yield from _check_part(native, form.items, "", "item")
        return
    role = native.get("role")
    role = form.default_role if role is None else role
    fields = form.roles.get(role) if isinstance(role, str) else None
    if fields is None:
        shown = _describe(role) if not isinstance(role, str) else repr(role)
        yield FormFault("known_role", "role", f"no message has the role {shown}; use {_join_words(form.roles)}")
        return
    yield from _check_fields(native, fields, "")


def find_part_faults(part: Mapping[str, object], forms: PartForms) -> Iterator[FormFault]:
    """Yields what a provider refuses in one part of a message where parts of these forms may stand."""
    return _check_part(part, forms, "", "part")


def _check_fields(holder: Mapping[str, object], fields: Mapping[str, ValueForm], path: str) -> Iterator[FormFault]:
    for key, form in fields.items():
        place = f"{path}.{key}" if path else key
        value = holder.get(key)
        if value is None and "null" not in form.types:
            if form.is_required and all(holder.get(other) is None for other in form.unless):
                found = "is null" if key in holder else "is missing"
                yield FormFault(form.rule, place, f"{key!r} {found}; give {_describe_form(form)}{_name_others(form)}")
            continue
        yield from _check_value(value, form, place)


def _check_value(value: object, form: ValueForm, path: str) -> Iterator[FormFault]:
    kind = get_json_type(value)
    if kind not in form.types:
        yield FormFault(form.rule, path, f"{_describe_form(form)} belongs here, not {_describe(value)}")
    elif isinstance(value, str | list) and len(value) < form.least:
        rest = "fill it" if form.is_required else "leave the field out"
        yield FormFault(form.rule, path, f"an empty {kind} stands here; {rest}")
    elif isinstance(value, str):
        if form.pattern and re.fullmatch(form.pattern, value) is None:
            yield FormFault(
                form.rule, path, f"{_shorten(value)} ({len(value)} characters) is not accepted; {form.advice}"
            )
    elif isinstance(value, list):
        for index, element in enumerate(value if form.parts is not None else ()):
            assert form.parts is not None
            place = f"{path}[{index}]"
            if isinstance(element, dict):
                yield from _check_part(element, form.parts, place, "part")
            else:
                yield FormFault(
                    form.rule, place, f"an object belongs here, not {_describe(element)}; wrap it in a part"
                )
    elif isinstance(value, dict):
        yield from _check_fields(value, form.fields, path)


def _check_part(part: Mapping[str, object], forms: PartForms, path: str, noun: str) -> Iterator[FormFault]:
    kinds = _find_kinds(part, forms)
    known = [kind for kind in kinds if kind in forms.kinds]
    if not known and not any(forms.others and re.fullmatch(forms.others, kind) for kind in kinds):
        place = f"{path}.{forms.tag}".lstrip(".") if forms.tag else path
        has = repr(kinds[0]) if kinds else f"one with the fields {_join_words(part) or 'none'}"
        yield FormFault(
            "known_part", place, f"no {noun} of this kind stands here: {has}; use {_join_words(forms.kinds)}"
        )
    elif len(known) > 1:
        yield FormFault("part_fields", path, f"a {noun} is one of {_join_words(known)}, not several; split it")
    for kind in known:
        yield from _check_fields(part, forms.kinds[kind], path)


def _find_kinds(part: Mapping[str, object], forms: PartForms) -> list[str]:
    if not forms.tag:
        return [kind for kind in forms.kinds if part.get(kind) is not None]
    kind = part.get(forms.tag)
    if kind is None:
        return [forms.default]
    return [kind] if isinstance(kind, str) else [_describe(kind)]


def get_json_type(value: object) -> JsonType:
    """Returns the JSON type of a decoded value."""
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "null")


def _describe_form(form: ValueForm) -> str:
    return " or ".join(f"a {name}" if name != "object" else "an object" for name in form.types)


def _name_others(form: ValueForm) -> str:
    return f", or one of {_join_words(form.unless)}" if form.unless else ""


def _describe(value: object) -> str:
    kind = get_json_type(value)
    if kind == "text":
        return f"the text {_shorten(str(value))}"
    return {"object": "an object", "null": "null"}.get(kind, f"a {kind}")


def _shorten(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}...")


def _join_words(words: Mapping[str, object] | list[str] | tuple[str, ...]) -> str:
    return ", ".join(word or "(no type)" for word in words)
