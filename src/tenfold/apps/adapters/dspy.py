"""Tenfold in an agent of DSPy: `TenfoldReAct` in place of `dspy.ReAct`.

    agent = TenfoldReAct("question -> answer", tools=[...])

Before each call of the model, the steps of the trajectory go into a session, and the model sees its view. DSPy's own
trajectory stays whole, so a prediction has all of it. What is no longer a step stands in fields called `earlier_0` and
so on, which DSPy shows to the model among the others. Earlier calls of a session stand before this one as DSPy's own
`dspy.History`, so that what the provider has in its cache of them is read from there; where that is not possible, they
stand in this one's trajectory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count, pairwise
from typing import Any, Unpack

from msgspec import Struct

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    import dspy

from tenfold.apps.adapters.host_sessions import HostSession, HostSessions, build_lookups
from tenfold.core.wire.given_values import name_type
from tenfold.core.wire.marks import find_summary_mark
from tenfold.errors import BadInput, ContextOverflow, UsageError
from tenfold.recall.tools import RecallTools, describe_parameters, describe_tools
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions
from tenfold.store.ids import IDS

_KEYS = ("thought", "tool_name", "tool_args", "observation")
"""What DSPy keeps of a step, each with the step's number behind it."""
_ANSWER = ("next_thought", "next_tool_name", "next_tool_args")
"""The fields of an answer, of which the first parts of a step are made."""
_HISTORY = "history"


class Inputs(Struct, frozen=True):
    """What an agent was called with. DSPy shows it by itself. Of an earlier call it is one text, called ""."""

    values: dict[str, Any]


class Step(Struct, frozen=True):
    """A step of a trajectory: the id of its call, and its thought, its tool, the arguments, and what was observed."""

    call: str
    values: tuple[Any, ...]


Part = Any
"""A part of a trajectory: an `Inputs`, a `Step`, or a text or an image that stands for what is no longer in it."""


class TrajectoryConverter:
    """Converts the parts of a trajectory. A step is an answer that calls a tool, and the tool's result."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`."""
        match message:
            case Inputs(values=values):
                texts = (f"{name}: {_to_json(value)}" for name, value in values.items())
                content = "\n".join(texts) if len(values) != 1 else _render(next(iter(values.values())))
                return [{"role": "user", "content": content}]
            case Step(call=id, values=(thought, name, arguments, observation)):
                call = {"id": id, "type": "function", "function": {"name": str(name), "arguments": _to_json(arguments)}}
                return [
                    {"role": "assistant", "content": str(thought or ""), "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": id, "content": _render(observation)},
                ]
        raise BadInput(f"{name_type(message)} is no part of a trajectory of DSPy")

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Part]:
        """See `Converter.build`."""
        built: list[Part] = []
        steps: dict[str, int] = {}
        for message in messages:
            value, place = _build_value(message), steps.pop(message.get("tool_call_id", ""), None)
            if place is not None:  # what the step before has observed
                built[place] = Step(built[place].call, (*built[place].values[:3], value))
                continue
            for call in message.get("tool_calls") or ():
                steps[call["id"]] = len(built)
                built.append(Step(call["id"], (value, call["function"]["name"], _from_json(call), "")))
                value = ""
            if value and message["role"] == "user" and not (isinstance(value, str) and find_summary_mark(value)):
                value = Inputs({"": value})
            built += [value] if value else []
        return built


CONVERTER = TrajectoryConverter()


class TenfoldReAct(dspy.ReAct):
    """A `dspy.ReAct` that keeps its steps in a session, and sees them compacted when they grow too long.

    `session` is the session's id: each call of the agent goes on with it. Without one, each call has a session of its
    own. An agent that is a tool of another one has its own, too. The model is offered three tools to look up what it no
    longer sees, unless `recall` is False.

    The other options are those of `tenfold.open_session`: name the `window` if the model's is not known by its name.
    """

    def __init__(
        self,
        signature: Any,  # noqa: ANN401 - as DSPy takes it
        tools: Sequence[Any],
        max_iters: int = 20,
        *,
        recall: bool = True,
        session: str = "",
        **options: Unpack[SessionOptions],
    ) -> None:
        if not hasattr(dspy.ReAct, "_async_call_with_potential_trajectory_truncation"):
            raise UsageError(
                f"DSPy {dspy.__version__} calls its models in a way that this version of Tenfold has not seen"
            )
        if not isinstance(session, str):
            raise UsageError(f"session is {name_type(session)}: pass the session's id, as in session='support-42'")
        lookups = [_build_tool(function) for function in build_lookups(_find_tools)] if recall else []
        super().__init__(signature, [*tools, *lookups], max_iters)
        self._recall, self._session = recall, session
        self._sessions = _Sessions(CONVERTER, options)

    def forward(self, **input_args: Any) -> dspy.Prediction:  # noqa: ANN401 - the fields of the signature
        """Runs the agent."""
        with self._open_session():
            return super().forward(**input_args)

    async def aforward(self, **input_args: Any) -> dspy.Prediction:  # noqa: ANN401 - as above
        """Does the same as `forward`, and blocks no event loop."""
        with self._open_session():
            return await super().aforward(**input_args)

    @contextmanager
    def _open_session(self) -> Iterator[None]:
        lm = self.react.lm or dspy.settings.lm
        run = IDS.generate()
        token = _RUNNING.set(
            _TrajectoryRun(self._sessions.get(self._session or run, getattr(lm, "model", "")), run[-12:])
        )
        try:
            yield
        finally:
            _RUNNING.reset(token)

    def _call_with_potential_trajectory_truncation(
        self,
        module: Any,  # noqa: ANN401 - a module of DSPy
        trajectory: dict[str, Any],
        **input_args: Any,  # noqa: ANN401 - the fields of the signature
    ) -> Any:  # noqa: ANN401 - a prediction
        """Has the model go on from the view, and once more from a shorter one if that is refused as too long."""
        host, parts = _RUNNING.get().host, _split_trajectory(trajectory, input_args)
        shown = host.fit(parts, **self._describe_request(module)).messages
        with dspy.track_usage() as tracker:
            try:
                answer = module(**input_args, **self._show(module, shown))
            except dspy.LMError as exc:
                with _keep_error(exc):
                    shown = host.shrink(_name_error(exc)).messages
                answer = module(**input_args, **self._show(module, shown))
        _report_usage(host, tracker)
        return answer

    async def _async_call_with_potential_trajectory_truncation(
        self,
        module: Any,  # noqa: ANN401 - as above
        trajectory: dict[str, Any],
        **input_args: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        """Does the same, and blocks no event loop."""
        host, parts = _RUNNING.get().host, _split_trajectory(trajectory, input_args)
        shown = (await host.afit(parts, **self._describe_request(module))).messages
        with dspy.track_usage() as tracker:
            try:
                answer = await module.acall(**input_args, **self._show(module, shown))
            except dspy.LMError as exc:
                with _keep_error(exc):
                    shown = (await host.ashrink(_name_error(exc))).messages
                answer = await module.acall(**input_args, **self._show(module, shown))
        await run_uninterrupted(lambda: _report_usage(host, tracker))
        return answer

    def _describe_request(self, module: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
        """Describes what is sent besides the steps."""
        (predictor, *_) = module.predictors()
        lm, adapter = predictor.lm or dspy.settings.lm, dspy.settings.adapter or dspy.ChatAdapter()
        try:
            system = adapter.format_system_message(predictor.signature)
            examples = [str(each["content"]) for each in adapter.format_demos(predictor.signature, predictor.demos)]
        except NotImplementedError:  # an adapter that has another way
            system, examples = predictor.signature.instructions, []
        settings = getattr(lm, "kwargs", {})
        return {
            "model": getattr(lm, "model", None),
            "system": "\n\n".join((system, *examples)),
            "max_tokens": settings.get("max_completion_tokens") or settings.get("max_tokens"),
            "recall": "tool" if self._recall else "none",
        }

    def _show(self, module: Any, parts: Sequence[Part]) -> dict[str, Any]:  # noqa: ANN401 - as above
        """Returns what shows the view to a module: the trajectory, and the calls before this one as a history."""
        own = (at for at, part in enumerate(parts) if isinstance(part, Inputs) and "" not in part.values)
        start = next(own, None)
        turns = self._build_turns(parts[:start]) if start is not None and module is self.react else []
        if start is None or not turns:
            return {"trajectory": self._format_parts([part for at, part in enumerate(parts) if at != start])}
        return {
            "trajectory": self._format_parts(parts[start + 1 :]),
            _HISTORY: dspy.History(messages=turns),
            "signature": module.signature.append(_HISTORY, dspy.InputField(), type_=dspy.History),
        }

    def _build_turns(self, parts: Sequence[Part]) -> list[dict[str, Any]]:
        """Builds the messages of a history of earlier calls: the inputs, the trajectory, and the answer that ended it.

        Empty if DSPy could not show them as it did then: where there are several inputs, the adapter knows no history,
        or a summary has taken the place of a call's inputs or of its end.
        """
        fields = [*self.signature.input_fields]
        is_known = isinstance(dspy.settings.adapter or dspy.ChatAdapter(), dspy.ChatAdapter)
        starts = [at for at, part in enumerate(parts) if isinstance(part, Inputs)]
        if len(fields) != 1 or fields == [_HISTORY] or not is_known or starts[:1] != [0]:
            return []
        calls = [parts[start:end] for start, end in pairwise([*starts, len(parts)])]
        if not all(isinstance(end := call[-1], Step) and end.values[1] == "finish" for call in calls):
            return []
        return [
            {
                fields[0]: next(iter(inputs.values.values())),
                "trajectory": self._format_parts(steps),
                **dict(zip(_ANSWER, end.values, strict=False)),
            }
            for inputs, *steps, end in calls
        ]

    def _format_parts(self, parts: Sequence[Part]) -> str:
        """Formats what the model sees as DSPy formats a trajectory."""
        shown: dict[str, Any] = {}
        steps, texts = count(), count()
        for part in parts:
            if isinstance(part, Step):
                number = next(steps)
                shown |= {f"{key}_{number}": value for key, value in zip(_KEYS, part.values, strict=True)}
            else:
                text = next(iter(part.values.values())) if isinstance(part, Inputs) else part
                shown[f"earlier_{next(texts)}"] = text
        return str(self._format_trajectory(shown))


class _TrajectoryRun(Struct, frozen=True):
    """A call of an agent: its session, and how the ids of its calls begin."""

    host: HostSession[Part]
    id: str


_RUNNING: ContextVar[_TrajectoryRun] = ContextVar("_RUNNING")
"""The call of an agent that this is in."""


def _find_tools() -> RecallTools:
    return _RUNNING.get().host.tools


class _Sessions(HostSessions[Part]):
    """The sessions of an agent, which DSPy copies and saves with the program. A copy opens them again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._converter, self._options, self._session)


def _split_trajectory(trajectory: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Part]:
    """Splits a trajectory into its steps, behind what the agent was called with."""
    numbers = [key.removeprefix("tool_name_") for key in trajectory if key.startswith("tool_name_")]
    run = _RUNNING.get().id
    steps = (Step(f"{run}_{n}", tuple(trajectory.get(f"{key}_{n}", "") for key in _KEYS)) for n in numbers)
    return [Inputs(dict(inputs)), *steps]


def _render(value: Any) -> str | list[dict[str, Any]]:  # noqa: ANN401 - what a tool gave, or an input
    if isinstance(value, dspy.Image):
        return [{"type": "image_url", "image_url": {"url": value.url}}]
    return _to_json(value)


def _to_json(value: Any) -> str:  # noqa: ANN401 - any
    if isinstance(value, str | dspy.Type):  # DSPy reads its own types from their text
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _from_json(call: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    arguments = call["function"]["arguments"]
    try:
        return json.loads(arguments)
    except ValueError:  # it was cut
        return arguments


def _build_value(message: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a text or an image
    match message.get("content"):
        case [{"type": "image_url", "image_url": {"url": url}}]:
            return dspy.Image(url=url)
        case list(parts):
            return "\n".join(part.get("text", f"[{part['type']}]") for part in parts)
        case text:
            return text or ""


def _build_tool(function: Any) -> dspy.Tool:  # noqa: ANN401 - a function
    name = function.__name__
    return dspy.Tool(function, name=name, desc=describe_tools()[name], arg_desc=describe_parameters(name))


def _name_error(error: Exception) -> Exception:
    """Returns the error of a model. If DSPy knows that the request was too long, the error says so."""
    if isinstance(error, dspy.ContextWindowExceededError):
        return ContextOverflow(f"context_length_exceeded: {error}")
    return error


@contextmanager
def _keep_error(error: Exception) -> Iterator[None]:
    """Has DSPy see its own error, by which it ends a trajectory, where the view cannot be made shorter."""
    try:
        yield
    except ContextOverflow:
        raise error from None


def _report_usage(host: HostSession[Part], tracker: Any) -> None:  # noqa: ANN401 - DSPy's
    entries = [entry for entries in tracker.usage_data.values() for entry in entries]
    if entries:
        cached = (entries[-1].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        host.report_usage(
            entries[-1].get("prompt_tokens") or 0, entries[-1].get("completion_tokens") or 0, cached=cached
        )
