"""Tenfold in LiteLLM: one callback for the SDK's coroutines, its Router and the proxy.

    litellm.callbacks = [TenfoldLogger()]

Before each call of `litellm.acompletion` and of a Router, the messages go into a session, and the model sees its view.
LiteLLM asks no callback what `litellm.completion` sends, so call the object's own `completion` in its place:

    answer = TenfoldLogger().completion(model="gpt-5-mini", messages=messages, litellm_session_id="support-42")

In the config.yaml of the proxy it is

    litellm_settings:
      callbacks: tenfold.apps.adapters.litellm.CALLBACK

which takes its options from the settings of Tenfold.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Unpack

from msgspec import Struct

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.utils import CallTypes, Message, ModelResponse
    from pydantic import BaseModel

from tenfold.apps.adapters.host_sessions import HostSession, HostSessions
from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput
from tenfold.recall.tools import SEARCH, RecallTools
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions

_LOG = logging.getLogger("tenfold")
_MAX_CALLS = 1_024
"""Calls that are remembered until their answer comes, of which a stream's may never be told."""
_CHAT_CALLS = frozenset({CallTypes.acompletion, CallTypes.completion})
_PROMPTS = ("system", "developer")
_IS_OWN_CALL: ContextVar[bool] = ContextVar("tenfold_own_call", default=False)


class MessageConverter:
    """Passes LiteLLM's messages through: they are those of OpenAI Chat, or answers as objects. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`."""
        if isinstance(message, BaseModel):
            return [message.model_dump(exclude_none=True, warnings=False)]
        if not isinstance(message, dict):
            raise BadInput(f"{name_type(message)} is no message of LiteLLM: pass dicts, or the messages of its answers")
        return [message]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """See `Converter.build`."""
        return [dict(message) for message in messages]


MESSAGES = MessageConverter()


class _LitellmCall(Struct):
    """A call that was not answered yet: what it `sent`, and what is `shorter` once that was refused."""

    host: HostSession[Any]
    prompt: list[Any]
    sent: list[Any]
    shorter: list[Any] | None = None


class TenfoldLogger(CustomLogger):
    """Keeps each conversation in a session, and has the model see it compacted when it grows too long.

    The session has the id that the request names: as `litellm_session_id`, or as the `session_id` of its metadata. A
    request that names none has the session of its first message, once there is an answer: before, nothing could be
    compacted. Behind the proxy, the id has the hash of the caller's key before it, so no two keys share a session.

    Offer the model `tools` as well and answer them with `handle`, and it can look up what it no longer sees.

    The options are those of `tenfold.open_session`. Without a `window`, it is what LiteLLM knows of the model.
    """

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        super().__init__()
        self._sessions: HostSessions[Any] = HostSessions(MESSAGES, options)
        self._calls: OrderedDict[str, _LitellmCall] = OrderedDict()
        self._has_warned = False

    # -- calls that are made here --------------------------------------------------------------------------------------

    def completion(self, model: str, messages: list[Any], **request: Any) -> Any:  # noqa: ANN401 - what LiteLLM takes
        """Does the same as `litellm.completion`, and asks once more if the provider refuses the view as too long."""
        host = self._find_session({"model": model, "messages": messages, **request})
        own = _IS_OWN_CALL.set(True)
        try:
            if host is None:
                return litellm.completion(model, messages, **request)
            prompt, rest = _split_prompt(messages)
            fitted = host.fit(rest, **_describe_request(model, prompt, request))
            try:
                response = litellm.completion(model, [*prompt, *fitted.messages], **request)
            except Exception as exc:  # noqa: BLE001 - `shrink` raises what is about something else
                response = litellm.completion(model, [*prompt, *host.shrink(exc).messages], **request)
        finally:
            _IS_OWN_CALL.reset(own)
        _report_usage(host, getattr(response, "usage", None))
        if answers := _get_answers(response):
            host.keep_answer(answers)
        return response

    async def acompletion(self, model: str, messages: list[Any], **request: Any) -> Any:  # noqa: ANN401 - as above
        """Does the same as `completion`, and blocks no event loop."""
        host = await run_uninterrupted(lambda: self._find_session({"model": model, "messages": messages, **request}))
        own = _IS_OWN_CALL.set(True)
        try:
            if host is None:
                return await litellm.acompletion(model, messages, **request)
            prompt, rest = _split_prompt(messages)
            fitted = await host.afit(rest, **_describe_request(model, prompt, request))
            try:
                response = await litellm.acompletion(model, [*prompt, *fitted.messages], **request)
            except Exception as exc:  # noqa: BLE001 - as above
                fitted = await host.ashrink(exc)
                response = await litellm.acompletion(model, [*prompt, *fitted.messages], **request)
        finally:
            _IS_OWN_CALL.reset(own)
        await _learn(host, response)
        return response

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions of the tools to look things up, for the `tools` of a request."""
        return RecallTools.build_schemas()

    def handle(self, call: Any, **request: Any) -> str | None:  # noqa: ANN401 - what LiteLLM gives and takes
        """Answers a call of one of the `tools`, and returns None for one of any other. `request` is the one made."""
        host, name = self._find_session(request), call.function.name
        if host is None or name not in {tool["function"]["name"] for tool in self.tools}:
            return None
        try:
            arguments = json.loads(call.function.arguments or "{}")
        except ValueError as exc:
            return f"the arguments are no JSON: {exc}"
        return host.tools.handle(name, arguments)

    # -- calls that LiteLLM makes --------------------------------------------------------------------------------------

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> Any:  # noqa: ANN401, ARG002 - LiteLLM's
        """Has the proxy's Router look for a deployment that takes the view, if the window is known before."""
        if call_type not in {each.value for each in _CHAT_CALLS}:
            return None
        host = await run_uninterrupted(lambda: self._find_session(data))
        is_known = host is not None and host.session.compactor.build_call().window is not None
        return await self._show(data) if is_known else None

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:  # noqa: ANN401 - LiteLLM's
        """Has a deployment be sent the view, or something shorter if one has refused it as too long."""
        return await self._show(kwargs) if call_type in _CHAT_CALLS and not _IS_OWN_CALL.get() else None

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:  # noqa: ANN401, ARG002 - LiteLLM's
        """Reports what the call took, and keeps its answer."""
        call = self._calls.pop(str(request_data.get("litellm_call_id")), None)
        if call is not None:
            await _learn(call.host, response)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ANN401, ARG002 - LiteLLM's
        """Does the same for a stream, unless more was asked since. Without `include_usage` nobody has counted it."""
        call = self._calls.pop(str(kwargs.get("litellm_call_id")), None)
        if call is not None and all(each.host is not call.host for each in self._calls.values()):
            is_counted = bool((kwargs.get("stream_options") or {}).get("include_usage"))
            await _learn(call.host, response_obj, is_counted=is_counted)

    async def async_post_call_failure_deployment_hook(
        self,
        request_data: Any,  # noqa: ANN401 - LiteLLM's
        exception: Exception,
        call_type: Any,  # noqa: ANN401, ARG002
        fallback_depth: Any = None,  # noqa: ANN401, ARG002
    ) -> None:
        """Makes the conversation shorter if it was refused as too long: what is tried next is sent that."""
        call = self._calls.get(str(request_data.get("litellm_call_id")))
        if call is not None:
            call.shorter = [*call.prompt, *(await call.host.ashrink(exception)).messages]

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:  # noqa: ANN401, ARG002 - LiteLLM's
        """Warns where the callback can do nothing."""
        params = kwargs.get("litellm_params") or {}
        if not (self._has_warned or _IS_OWN_CALL.get() or params.get("acompletion")) and messages:
            self._has_warned = True
            _LOG.warning("litellm.completion asks no callback what it sends: call completion of the TenfoldLogger")

    async def _show(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Returns a request with the view in place of its messages. None if it is sent as it is."""
        name, messages = str(request.get("litellm_call_id")), request.get("messages")
        call = self._calls.get(name)
        if call is not None and call.shorter is not None:
            call.sent, call.shorter = call.shorter, None
            return {**request, "messages": call.sent}
        if call is not None and call.sent == messages:
            return None
        host = await run_uninterrupted(lambda: self._find_session(request))
        if host is None:
            return None
        prompt, rest = _split_prompt(messages or [])
        fitted = await host.afit(rest, **_describe_request(request.get("model", ""), prompt, request))
        call = self._calls[name] = _LitellmCall(host, prompt, [*prompt, *fitted.messages])
        while len(self._calls) > _MAX_CALLS:
            self._calls.popitem(last=False)
        return {**request, "messages": call.sent}

    def _find_session(self, request: Mapping[str, Any]) -> HostSession[Any] | None:
        """Finds the session of a request. None if it has none, as where something is asked once."""
        name, model = _name_session(request), str(request.get("model") or "")
        if not name:
            return None
        host = self._sessions.get(name, model)
        compactor = host.session.compactor
        if compactor.window is None and compactor.build_call().window is None:
            compactor.use_window(_find_window(model))
        return host


CALLBACK = TenfoldLogger()
"""The callback of the proxy."""


def _name_session(request: Mapping[str, Any]) -> str:
    """Names the session of a request. An id that the proxy made for this one request alone is none."""
    given = (request.get("metadata"), request.get("litellm_metadata"))
    places = [place for place in given if isinstance(place, Mapping)]
    is_made = any(place.get("litellm_session_id_generated") for place in places)
    ids = (place.get(key) for place in (request, *places) for key in ("litellm_session_id", "session_id"))
    name = "" if is_made else next((str(found) for found in ids if found), "")
    name = name or _name_by_beginning(request.get("messages") or ())
    key = next((str(found) for place in places if (found := place.get("user_api_key_hash"))), "")  # as the proxy says
    return f"{key}/{name}" if key and name else name


def _name_by_beginning(messages: Sequence[Any]) -> str:
    """Names a conversation by its first message, system prompts aside. Returns "" if there is no answer in it yet."""
    said = [message for message in messages if _get_role(message) not in _PROMPTS]
    if all(_get_role(message) != "assistant" for message in said):
        return ""
    first = json.dumps(MESSAGES.read(said[0]), sort_keys=True, default=str)
    return f"begins-{hashlib.sha256(first.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _get_role(message: Any) -> str:  # noqa: ANN401 - a dict or an object
    return str(message.get("role") if isinstance(message, Mapping) else getattr(message, "role", ""))


def _find_window(model: str) -> int | None:
    try:
        limit = litellm.get_model_info(model).get("max_input_tokens")
    except Exception:  # noqa: BLE001 - LiteLLM raises one for a model that it does not know
        return None
    return limit if isinstance(limit, int) else None


def _split_prompt(messages: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Splits off the system prompt: it stays in front where a list goes on from a session that it does not hold."""
    count = 1 if messages and _get_role(messages[0]) in _PROMPTS else 0
    return list(messages[:count]), list(messages[count:])


def _describe_request(model: str, prompt: Sequence[Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Describes what is sent besides the messages."""
    tools = request.get("tools") or []
    names = {(tool.get("function") or {}).get("name") for tool in tools}
    return {
        "model": model,
        "system": MESSAGES.read(prompt[0])[0].get("content") if prompt else None,
        "tools": tools or None,
        "max_tokens": request.get("max_completion_tokens") or request.get("max_tokens"),
        "recall": "tool" if SEARCH in names else "none",
    }


def _get_answers(response: Any) -> list[Message]:  # noqa: ANN401 - an answer, or a stream
    """Returns the answer, if there is just one."""
    is_one = isinstance(response, ModelResponse) and len(response.choices) == 1
    return [response.choices[0].message] if is_one else []


async def _learn(host: HostSession[Any], response: Any, *, is_counted: bool = True) -> None:  # noqa: ANN401 - as above
    """Reports what a call took, if it was counted, and keeps its answer."""
    if is_counted:
        await asyncio.to_thread(_report_usage, host, getattr(response, "usage", None))
    if answers := _get_answers(response):
        await host.akeep_answer(answers)


def _report_usage(host: HostSession[Any], usage: Any) -> None:  # noqa: ANN401 - LiteLLM's Usage
    if usage is not None:
        details = getattr(usage, "prompt_tokens_details", None)
        cached, written = getattr(details, "cached_tokens", 0) or 0, getattr(details, "cache_creation_tokens", 0) or 0
        host.report_usage(usage.prompt_tokens, usage.completion_tokens, cached=cached, written=written)
