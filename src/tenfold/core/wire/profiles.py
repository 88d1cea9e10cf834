"""What a profile of a provider holds: what its API accepts, and how its requests, reports and tools are written.

Each wire's module has its own profile; everything that other modules know of a provider is asked of it. Where reports
differ, a rule takes the safe side: a superfluous stub costs ten tokens, a refused request costs the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message
from tenfold.core.wire.media import MediaKind
from tenfold.core.wire.native_form import MessageForm
from tenfold.core.wire.sdk_values import get_set_fields, render_value

MADE_ID_PREFIX = "made_"
"""The prefix of call ids that a decoder made because the native call had none. They are not sent to that wire."""


_NUMBER = r"\d[\d,]{0,15}"
_LIMIT = rf"(?P<limit>{_NUMBER})"


class ErrorPattern(Struct, frozen=True):
    """One known error text: its provider, its pattern, where it was seen, and whether it means an overflow.

    `evidence` is an issue as owner/repo#1, a repository, or the title of a page.
    """

    provider: str
    pattern: re.Pattern[str]
    evidence: str
    is_overflow: bool


def build_overflow(provider: str, pattern: str, evidence: str, *, is_overflow: bool = True) -> ErrorPattern:
    """Builds the row of an overflow. `<n>` stands for a number, `<limit>` for the most tokens a request may have."""
    text = pattern.replace("<n>", _NUMBER).replace("<limit>", _LIMIT)
    return ErrorPattern(provider, re.compile(text, re.IGNORECASE), evidence, is_overflow)


def build_look_alike(provider: str, pattern: str, evidence: str) -> ErrorPattern:
    """Builds the row of a text that only looks like an overflow: a limit of the account, or of the answer."""
    return build_overflow(provider, pattern, evidence, is_overflow=False)


class NativeShape(Struct, frozen=True):
    """What a native message shows of its wire: its role and type ("" if absent), its fields, and its blocks' types."""

    role: str
    kind: str
    fields: Container[str]
    block_kinds: frozenset[str]


class RequestFields(Struct, frozen=True, kw_only=True):
    """Which keyword arguments of a provider's call hold what.

    `list_field` holds the conversation, `overhead_fields` what is sent beside it, of which `system_fields` the system
    prompt, `output_fields` the limit of the answer in tokens, `count_fields` the number of answers that are wanted.
    `settings_fields` hold mappings in which these may stand as well. A request with one of `own_fields` is certainly of
    this wire. Messages that could be of several wires are of this one if `model_word` is in the name of the model, and
    none has one of `foreign_roles`. With one of `partial_fields` set, a request holds only what is new.
    """

    list_field: str = "messages"
    overhead_fields: tuple[str, ...] = ("tools",)
    system_fields: tuple[str, ...] = ()
    output_fields: tuple[str, ...] = ()
    count_fields: tuple[str, ...] = ()
    settings_fields: tuple[str, ...] = ()
    own_fields: tuple[str, ...] = ()
    partial_fields: tuple[str, ...] = ()
    model_word: str = ""
    foreign_roles: frozenset[str] = frozenset()

    def read_overhead(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns the texts of what is sent beside the conversation: system prompt and tools."""
        merged = self._merge_settings(request)
        return tuple(render_value(merged[key]) for key in self.overhead_fields if merged.get(key))

    def read_output_limit(self, request: Mapping[str, Any]) -> int:
        """Returns the limit that the request puts on the answer, in tokens. 0 if it has none."""
        merged = self._merge_settings(request)
        return next((n for key in self.output_fields if isinstance(n := merged.get(key), int)), 0)

    def is_for_one_answer(self, request: Mapping[str, Any]) -> bool:
        """Whether a request wants one answer, and not several at once."""
        merged = self._merge_settings(request)
        return all(merged.get(key) in (None, 1) for key in self.count_fields)

    def _merge_settings(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = (get_set_fields(request.get(key)) for key in self.settings_fields)
        return {**next((s for s in settings if s is not None), {}), **request}


class UsageFields(Struct, frozen=True, kw_only=True):
    """Which fields of a provider's usage report hold what.

    `holder` is the field of a response that holds the report. The numbers under the `prompt` fields together are the
    whole prompt. `details` is the field that holds `cached_tokens`. A report with one of the fields `absent` is
    another wire's.
    """

    holder: str = "usage"
    prompt: tuple[str, ...]
    output: str
    cache_read: str = ""
    cache_write: str = ""
    details: str = ""
    absent: tuple[str, ...] = ()

    def read(self, report: Mapping[str, Any], model: str) -> Usage | None:
        """Reads the usage from a report. None if there is no prompt in these fields."""
        if any(map(report.get, self.absent)):
            return None
        numbers = {key: n for key, n in report.items() if isinstance(n, int) and n > 0}
        prompt = sum(numbers.get(key, 0) for key in self.prompt)
        details = report.get(self.details)
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
        cache_read = cached if isinstance(cached, int) else numbers.get(self.cache_read, 0)
        usage = Usage.build(prompt, numbers.get(self.output, 0), cache_read, numbers.get(self.cache_write, 0), model)
        return usage if prompt else None


def build_plain_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    """Builds the definition of a tool from its name, its description and the JSON schema of its parameters."""
    return {"name": name, "description": description, "parameters": parameters}


def build_user_content(text: str) -> dict[str, object]:
    """Builds a native user message from a text."""
    return {"role": "user", "content": text}


def _can_take_any_text(_message: Message, _call_ids: Collection[str]) -> bool:
    return True


def _recognize_nothing(_: NativeShape) -> bool:
    return False


class Profile(Struct, frozen=True, kw_only=True):
    """All that is known of one provider's API. The defaults refuse nothing: a profile says what its provider does.

    What the provider accepts (where that was seen stands beside each field, and in docs/wire.md for each rule of
    `tenfold.core.view`):
    `results` says where tool results must be: "next_message" (all of a step in the next user message, where messages
    of one role are combined), "adjacent" (one message each, right after the calls) or "anywhere" (later).
    `calls_after_answer` says whether a tool call may stand in a message of its own after another answer of the model.
    `midlist_system` applies to what a caller sends; our own later system messages are folded into user messages unless
    it is "accepted". `native_compaction` says how the provider returns its own compaction: as a block in an answer or
    as a separate item, of the types `compaction_types`. It may ignore what comes before the newest one.
    `definition_types` are the types of items and blocks that define tools inside the list, or name those that were
    found: the calls after them need them.
    `form` says what a single message has to look like; without it, that is not checked. Call ids are unique in the
    whole request or in one answer (`unique_call_ids`), the ids of items in the request (`unique_item_ids`).
    `thinking_leads` says that thinking is the first block of its message, `ends_with_user` that a request ends with a
    user's message or with results, `takes_text` that a plain text may stand in place of the list. `max_cache_marks` is
    0 if there is no limit.

    How its API writes things:
    `request` and `usage` name the fields of requests and reports, `unfinished` the values of response fields that say
    that the report does not count. `recognize_message` says whether a native message can only be of this wire.
    `add_system` adds system texts to a request, for providers that take the system prompt beside the list. With
    `splits_answers` an answer is several native items, except those of `standalone_kinds`, which are never part of
    one. `session_formats` are those whose content blocks, signatures and opaque parts are of this wire. `media_kinds`
    maps the types of native parts that are kept opaque, since their content is not in them, to what they are.
    `can_take_text` says whether a tool result can be replaced by text, given the ids of the calls in its step.
    `errors` are texts that say that a request was too large, and some that look alike. `other_names` are what people
    call the wire besides its name.
    """

    wire: str
    results: Literal["next_message", "adjacent", "anywhere"]
    id_pattern: str
    opens_with_assistant: bool = True
    midlist_system: Literal["accepted", "before_assistant", "folded"] = "accepted"
    reasoning_needs_successor: bool = False
    empty_text: bool = True
    empty_message: bool = True
    ids_optional: bool = False
    calls_after_answer: bool = True
    native_compaction: Literal["none", "in_answer", "alone"] = "none"
    compaction_types: frozenset[str] = frozenset()
    definition_types: frozenset[str] = frozenset()
    form: MessageForm | None = None
    unique_call_ids: Literal["nowhere", "answer", "request"] = "nowhere"
    unique_item_ids: bool = False
    thinking_leads: bool = False
    ends_with_user: bool = False
    max_cache_marks: int = 0
    takes_text: bool = False

    request: RequestFields = RequestFields()
    usage: tuple[UsageFields, ...] = ()
    unfinished: Mapping[str, tuple[str, ...]] = {}
    recognize_message: Callable[[NativeShape], bool] = _recognize_nothing
    build_tool: Callable[[str, str, Mapping[str, object]], dict[str, object]] = build_plain_tool
    build_user_message: Callable[[str], dict[str, object]] = build_user_content
    add_system: Callable[[dict[str, Any], Sequence[str]], dict[str, Any]] | None = None
    splits_answers: bool = False
    standalone_kinds: frozenset[str] = frozenset()
    session_formats: frozenset[str] = frozenset()
    media_kinds: Mapping[str, MediaKind] = {}
    can_take_text: Callable[[Message, Collection[str]], bool] = _can_take_any_text
    errors: tuple[ErrorPattern, ...] = ()
    other_names: tuple[str, ...] = ()

    @property
    def has_separate_system(self) -> bool:
        """Whether the provider takes the system prompt beside the list of messages."""
        return self.add_system is not None

    def is_own_format(self, format: str) -> bool:
        """Whether the blocks of a native message of that format are of this wire."""
        return format == self.wire or format in self.session_formats
