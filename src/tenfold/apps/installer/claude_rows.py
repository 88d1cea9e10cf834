"""Compacts a conversation of Claude Code that its function hook `session.compact` gives as rows.

A row is a user's message or a part of the model's: what it thought, a text and each call are rows of their own, and so
are the results. A row of what it thought has no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tenfold.config.settings import Config
from tenfold.core.meter.counters import choose_counter
from tenfold.session.stateless import compact

WIRE = "openai-chat"
DOWN_TO = "40%"
"""The share of the rows that is aimed at, if the settings name no `down_to`."""
MOST_LEFT = 0.7
"""With a larger share left, the answer is none: Claude Code would have to compact again soon."""
NO_TEXT = "(no text)"
"""Stands for a row of the user that has something other than text, such as an image. It is never sent."""


class RowCall(Struct, frozen=True):
    """A call of a tool."""

    tool_use_id: str
    tool: str
    input: dict[str, Any]


class RowResult(Struct, frozen=True, rename="camel"):
    """What a call gave."""

    tool_use_id: str = msgspec.field(name="tool_use_id")
    text: str = ""
    is_error: bool = False


class Row(Struct, frozen=True, rename="camel"):
    """One row, as Claude Code has it."""

    role: Literal["user", "assistant"]
    text: str = ""
    tool_uses: tuple[RowCall, ...] = ()
    tool_results: tuple[RowResult, ...] = ()


class RowsAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What to have in place of the rows: the numbers of those that stay, and new ones. No rows if nothing is to do."""

    rows: tuple[int | Row, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0


class _Group(Struct, frozen=True):
    """Rows that stay or go together, by number, and the same as OpenAI Chat messages.

    All of the model's rows in succession are one message. A row of the user is one, and one for each result in it.
    """

    numbers: tuple[int, ...]
    messages: list[dict[str, Any]]


def compact_rows(rows: Sequence[Row], config: Config) -> RowsAnswer:
    """Compacts rows with the policy of the settings, down to their `down_to` as a share of the rows, or in tokens.

    Code writes the summaries. A call stays with its results, and with what the model said before it.
    """
    groups = _group_rows(rows)
    messages = [message for group in groups for message in group.messages]
    if not messages:
        return RowsAnswer()
    policy = config.build_policy(choose_counter(None).counter)
    down_to = config.get_common().down_to
    result = compact(messages, to=DOWN_TO if down_to is None else down_to, format=WIRE, policy=policy)
    outcome = result.outcome
    is_small = outcome.tokens_after <= MOST_LEFT * outcome.tokens_before
    if outcome.status != "compacted" or outcome.violations or not is_small:
        return RowsAnswer()
    placed = _place_messages(result.messages, groups, rows)
    if not _is_paired([rows[each] if isinstance(each, int) else each for each in placed]):
        return RowsAnswer()
    return RowsAnswer(tuple(placed), int(outcome.tokens_before), int(outcome.tokens_after))


def _group_rows(rows: Sequence[Row]) -> list[_Group]:
    groups = []
    for key, run in groupby(enumerate(rows), lambda item: -1 if item[1].role == "assistant" else item[0]):
        numbers, grouped = zip(*run, strict=True)
        messages = [_read_answer(grouped)] if key == -1 else _read_user(grouped[0])
        groups.append(_Group(numbers, messages))
    return groups


def _read_answer(rows: Sequence[Row]) -> dict[str, Any]:
    calls = [
        {
            "id": use.tool_use_id,
            "type": "function",
            "function": {"name": use.tool, "arguments": msgspec.json.encode(use.input).decode()},
        }
        for row in rows
        for use in row.tool_uses
    ]
    text = "\n".join(row.text for row in rows if row.text)
    if not calls:
        return {"role": "assistant", "content": text or NO_TEXT}
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _read_user(row: Row) -> list[dict[str, Any]]:
    results = [
        {"role": "tool", "tool_call_id": result.tool_use_id, "content": result.text} for result in row.tool_results
    ]
    if results and not row.text:
        return results
    return [*results, {"role": "user", "content": row.text or NO_TEXT}]


def _place_messages(
    sent: Sequence[Mapping[str, Any]], groups: Sequence[_Group], rows: Sequence[Row]
) -> list[int | Row]:
    """Returns what is left as rows: by number where they stay, else new ones.

    Words of the user that nothing was done to stay. Calls and results are new rows in any case, without what the model
    thought: where such a row stays, Claude Code links it to what was before it, and a session that is resumed has its
    whole history again. Only the model's rows of the newest step stay while the model has not gone on from its results,
    since a provider may refuse those without the thought before them.
    """
    answers = [number for number, group in enumerate(groups) if rows[group.numbers[0]].role == "assistant"]
    open_step = answers[-1] if answers and rows[-1].tool_results else -1
    owners = {id(message): number for number, group in enumerate(groups) for message in group.messages}
    by_call = {key: owners[id(message)] for group in groups for message in group.messages for key in _get_keys(message)}

    def find_owner(item: tuple[int, Mapping[str, Any]]) -> int:
        at, message = item
        owner = owners.get(id(message))
        if owner is None:
            owner = next((by_call[key] for key in _get_keys(message) if key in by_call), None)
        return -1 - at if owner is None else owner

    placed: list[int | Row] = []
    for owner, run in groupby(enumerate(sent), find_owner):
        messages = [message for _, message in run]
        if owner < 0:
            placed += [_build_row(message) for message in messages]
            continue
        group = groups[owner]
        known = set(map(id, group.messages))
        is_same = len(messages) == len(group.messages) and all(id(message) in known for message in messages)
        if is_same and (owner == open_step or _is_words(rows[group.numbers[0]])):
            placed += group.numbers
        elif messages[0]["role"] == "assistant":
            placed += [_build_row(message) for message in messages if message.get("content") != NO_TEXT]
        else:
            placed.append(_build_results(messages, rows[group.numbers[0]]))
    return placed


def _is_words(row: Row) -> bool:
    return row.role == "user" and not row.tool_results


def _get_keys(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what tells a call or a result again, when the message is another object."""
    if message["role"] == "tool":
        return [("tool", str(message["tool_call_id"]))]
    return [("call", str(call["id"])) for call in message.get("tool_calls") or ()]


def _get_text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content or ""


def _build_row(message: Mapping[str, Any]) -> Row:
    uses = tuple(
        RowCall(call["id"], call["function"]["name"], msgspec.json.decode(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    )
    return Row("assistant" if message["role"] == "assistant" else "user", _get_text(message), uses)


def _build_results(messages: Sequence[Mapping[str, Any]], row: Row) -> Row:
    failed = {result.tool_use_id for result in row.tool_results if result.is_error}
    results = tuple(
        RowResult(message["tool_call_id"], _get_text(message), message["tool_call_id"] in failed)
        for message in messages
        if message["role"] == "tool"
    )
    text = "\n".join(_get_text(message) for message in messages if message["role"] == "user")
    return Row("user", "" if text == NO_TEXT else text, tool_results=results)


def _is_paired(rows: Sequence[Row]) -> bool:
    """Tells whether every call has its result before the model goes on, and every result its call."""
    waiting: set[str] = set()
    was_answered = False
    for row in rows:
        called = {use.tool_use_id for use in row.tool_uses}
        given = {result.tool_use_id for result in row.tool_results}
        if row.role == "assistant" and waiting and was_answered:
            return False
        if not given <= waiting or (row.role == "user" and waiting and not given):
            return False
        was_answered = bool(given) and row.role == "user"
        waiting = (waiting | called) - given
    return not waiting
