"""Finds the converter for a framework's message objects, and converts lists with it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from tenfold.core.wire.given_values import list_messages, name_type
from tenfold.core.wire.sdk_values import encode_messages
from tenfold.core.wire.splice import parse_value
from tenfold.errors import BadInput, UsageError, suggest_nearest


class Converter(Protocol):
    """Converts the messages of one framework. An object is one message of the wire, or several.

    `wire` is the provider format that holds what the framework's messages hold: one of `tenfold.core.wire.WIRES`.
    """

    @property
    def wire(self) -> str: ...  # noqa: D102 - see the class

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a framework's own type
        """Reads an object as a provider's messages. Raises `BadInput` for what is no message of the framework."""
        ...

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Builds objects from a provider's messages: some that `read` gave, and others."""
        ...


class Framework(Struct, frozen=True):
    """A framework with message objects: the module that they come from, and the name of the pip package."""

    name: str
    module: str
    package: str


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        each.name: each
        for each in (
            Framework("langchain", "langchain_core", "langchain"),
            Framework("inspect_ai", "inspect_ai", "inspect-ai"),
            Framework("haystack", "haystack", "haystack-ai"),
            Framework("smolagents", "smolagents", "smolagents"),
            Framework("agno", "agno", "agno"),
            Framework("agent_framework", "agent_framework", "agent-framework-core"),
            Framework("strands", "strands", "strands-agents"),
            Framework("llama_index", "llama_index.core", "llama-index-core"),
            Framework("openhands", "openhands.sdk", "openhands-sdk"),
        )
    }
)
"""The frameworks whose message objects are known, by name."""


def get_converter(name: str) -> Converter:
    """Returns the converter of a framework. Raises `UsageError` for an unknown one, or one that is not installed."""
    name = name.replace("-", "_")
    framework = FRAMEWORKS.get(name)
    if framework is None:
        near = suggest_nearest(name, FRAMEWORKS)
        raise UsageError(f"there is no framework {name!r}{near}; there are {', '.join(FRAMEWORKS)}")
    try:
        module = importlib.import_module(f"tenfold.formats.objects.{name}")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] == "tenfold":
            raise
        raise UsageError(
            f"the messages of {name} need {exc.name}, which is not installed: pip install {framework.package}"
        ) from exc
    converter: Converter = module.CONVERTER
    return converter


def find_framework(message: object) -> str:
    """Finds the framework that an object is a message of, by the modules of its classes. Returns "" for any other."""
    modules = [cls.__module__ for cls in type(message).__mro__]
    return next(
        (
            each.name
            for each in FRAMEWORKS.values()
            if any(module == each.module or module.startswith(f"{each.module}.") for module in modules)
        ),
        "",
    )


def find_converter(messages: Iterable[object]) -> Converter | None:
    """Finds the converter for a list by its first object. None for a provider's own messages and an empty list."""
    name = next((find_framework(message) for message in messages), "")
    return get_converter(name) if name else None


class ObjectList(Struct, frozen=True):
    """A list as it was given, and the provider's messages that each of its objects was read as.

    Without a `converter` the objects are provider messages themselves.
    """

    objects: Sequence[Any]
    items: Sequence[Sequence[Any]]
    converter: Converter | None

    @classmethod
    def read(cls, objects: Sequence[Any], converter: Converter | None = None) -> ObjectList:
        """Reads a list of objects, with the converter for its first object if none is given."""
        chosen = converter or find_converter(objects)
        return cls(objects, [[each] if chosen is None else chosen.read(each) for each in objects], chosen)

    @property
    def messages(self) -> list[Any]:
        """All of them, in one list."""
        return list(chain.from_iterable(self.items))

    @property
    def wire(self) -> str:
        """The wire of the messages, "" if they are a provider's and may be of any."""
        return "" if self.converter is None else self.converter.wire

    def place(self, sent: Sequence[Any]) -> list[Any]:
        """Returns what is sent as the framework's messages: its own objects where nothing was replaced, else new ones.

        `sent` holds some of the same messages, and others.
        """
        if self.converter is None:
            return list(sent)
        shown = set(map(id, sent))
        whole = [at for at, read in enumerate(self.items) if read and shown.issuperset(map(id, read))]
        owners = {id(item): at for at in whole for item in self.items[at]}
        placed: list[Any] = []
        for owner, run in groupby(sent, lambda item: owners.get(id(item))):
            placed += self.converter.build(list(run)) if owner is None else [self.objects[owner]]
        return placed


def to_messages(objects: Sequence[Any]) -> list[Any]:
    """Converts the message objects of a framework to a provider's messages, which every function of Tenfold takes.

        tenfold.to_messages([HumanMessage("Hello")])  # [{"role": "user", "content": "Hello"}]

    Which framework it is says the first object; `FRAMEWORKS` holds those that are known. A list of provider messages is
    returned as it is. Raises `UsageError` for objects of two kinds in one list, and `BadInput` for what is no list of
    messages.
    """
    objects = list_messages(objects)
    converter = find_converter(objects)
    if converter is None:
        encode_messages(objects)
        return list(objects)
    first = find_framework(objects[0])
    for number, each in enumerate(objects, 1):
        if find_framework(each) != first:
            raise UsageError(f"message {number} is {name_type(each)}, and the first one is of {first}: pass one kind")
    return [message for each in objects for message in converter.read(each)]


def from_messages(messages: Sequence[Any], framework: str) -> list[Any]:
    """Converts a provider's messages to the message objects of a framework, such as "langchain".

    They are messages of the wire that `to_messages` gives for that framework. Raises `UsageError` for an unknown name,
    and `BadInput` for what is no list of messages.
    """
    raws = encode_messages(given := list_messages(messages))
    plain: list[Mapping[str, Any]] = []
    for each, raw in zip(given, raws, strict=True):
        message = each if isinstance(each, Mapping) else parse_value(raw)
        if not isinstance(message, Mapping):
            raise BadInput(f"item {len(plain)} is no JSON object: write a text as {{'role': 'user', 'content': ...}}")
        plain.append(message)
    return get_converter(framework).build(plain)
