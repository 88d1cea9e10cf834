"""What is known of a provider stands in its wire's profile: nothing else asks for a wire by its name."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from tenfold.core.wire import DEFAULT_WIRE, WIRES
from tenfold.errors import UnknownFormat
from tenfold.session.requests import read_request
from tests.shape import scan

KNOW_A_WIRE: Mapping[str, str] = {
    "core/wire/anthropic/profile.py": "the name of the wire",
    "core/wire/gemini/profile.py": "the same",
    "core/wire/openai_chat/profile.py": "the same",
    "core/wire/openai_responses/profile.py": "the same",
    "core/wire/anthropic/api.py": "what settings call the API, which is the same word",
    "core/wire/gemini/api.py": "the same",
    "formats": "a session file holds the blocks of one wire",
    "models": "the names are those of the libraries that call a model",
    "apps/agent": "the same",
    "apps/clients": "a client keeps the messages of one wire, and has addresses and programs of these names",
    "testing": "the questions and histories are written in one wire",
}
"""Files and folders that name a wire, and why. The gateway is none of them: it asks the wire's profile and its API."""


def test_only_those_with_a_reason_name_a_wire() -> None:
    named = {
        f"{name}: {node.value}"
        for path in scan.list_python_files("src")
        for name in [path.relative_to(scan.ROOT / "src" / "tenfold").as_posix()]
        if not any(name == known or name.startswith(f"{known}/") for known in KNOW_A_WIRE)
        for node in ast.walk(scan.parse_file(path))
        if isinstance(node, ast.Constant) and node.value in WIRES
    }
    assert named == set()


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_is_defined_with_its_name_and_parameters(wire: str) -> None:
    parameters = {"type": "object", "properties": {}}
    tool = WIRES[wire].profile.build_tool("look", "Looks.", parameters)
    definition = tool.get("function", tool)
    assert isinstance(definition, dict)
    assert (definition["name"], definition["description"]) == ("look", "Looks.")
    assert parameters in (definition.get("parameters"), definition.get("input_schema"))


@pytest.mark.parametrize("wire", WIRES)
def test_a_user_message_of_a_profile_is_one_of_its_wire(wire: str) -> None:
    profile = WIRES[wire].profile
    read = read_request({profile.request.list_field: [profile.build_user_message("hi")]})
    assert [(m.role, m.origin) for m in read.messages] == [("user", "human")]
    assert read.wire == (DEFAULT_WIRE if profile.request.list_field == "messages" else wire)


def test_a_request_of_an_unknown_wire_is_refused() -> None:
    with pytest.raises(UnknownFormat, match=", ".join(WIRES)):
        read_request({"messages": "hello"}, wire="semaphore")
