"""The methods that are compared by name: those of `tenfold.testing`, real summaries of sessions, and controls.

A control is no way to compact: it shows what a measure gives to a view that is known to be useless or complete. The
peers, which run in processes of their own, are in `peers.py`.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tenfold.config.policies import POLICIES
from tenfold.config.settings import Config, load_settings
from tenfold.errors import UsageError
from tenfold.testing.chats import count_message_tokens, count_total_tokens, get_counter, get_role
from tenfold.testing.identifier_finder import find_identifiers
from tenfold.testing.methods import BASELINES, Baseline, Method, MethodResult, Preset, UnableError, split_steps
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import Case

ALL = "all"
FULL_PAST = "full-past"
"""The control that no budget holds for."""
SUMMARY_TEXT = "The conversation before this point was summarized:\n\n{text}"


class RealSummaries(Struct, frozen=True):
    """The summaries that models really wrote in these sessions, each with the messages that were kept beside it.

    Each summary has its own size, whatever the budget.
    """

    cases: tuple[Case, ...]
    name: str = "real-summary"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`. Raises `UnableError` if the session holds no summary at this cut."""
        del budget
        case = next((c for c in self.cases if c.summary and c.cut == len(past) and c.past == tuple(past)), None)
        if case is None:
            raise UnableError("the session holds no model-written summary at this cut")
        head = [m for m in past[: case.kept_from] if get_role(m) == "system"]
        summary: ChatMessage = {"role": "user", "content": SUMMARY_TEXT.format(text=case.summary)}
        messages = (*head, summary, *past[case.kept_from :])
        return MethodResult(messages, count_total_tokens(messages), 0.0, note="written by the session's own model")


def list_names(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
    """Keeps the system prompt, and fills the budget with the names in the past, newest first and without a sentence."""
    head, steps = split_steps(past)
    names: dict[str, None] = {}
    for message in (m for step in reversed(steps) for m in reversed(step)):
        names |= dict.fromkeys(each.text for each in find_identifiers(get_text(message)))
    room = budget - count_total_tokens(head) - count_message_tokens([{"role": "user", "content": ""}])[0]
    lines = [f"{name}\n" for name in names]
    fitting: list[str] = []
    for line, size in zip(lines, get_counter().count(lines), strict=True):
        room -= size
        if room < 0:
            break
        fitting.append(line)
    return [*head, {"role": "user", "content": "".join(fitting)}] if fitting else head


def keep_nothing(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """Keeps the system prompt alone."""
    return split_steps(past)[0]


CONTROLS: Mapping[str, Baseline] = {
    control.name: control
    for control in (
        Baseline("name-list", list_names),
        Baseline("empty-view", keep_nothing),
        Baseline(FULL_PAST, lambda past, _: list(past)),
    )
}
"""Views that nobody would use. They have a score, and no place among the methods."""


class SettingsPolicy(Struct, frozen=True):
    """A named instance of the settings, `[tenfold.presets.NAME]`. Code alone writes its summaries."""

    name: str
    settings: Config

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`."""
        policy = self.settings.build_policy(get_counter(), self.name)
        return Preset(self.name, policy=policy).compact(past, budget=budget)


class OwnMethod(Struct, frozen=True):
    """A function of a user: messages and a budget in tokens in, messages out. It may raise anything."""

    name: str
    function: Callable[[Sequence[ChatMessage], int], Any]

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`. Raises `UnableError` with what the function raised, or with what it returned."""
        start = time.perf_counter()
        try:
            messages = self.function([*past], budget)
        except Exception as exc:
            raise UnableError(f"{type(exc).__name__}: {exc}") from exc
        seconds = time.perf_counter() - start
        if not isinstance(messages, Sequence) or not all(isinstance(message, Mapping) for message in messages):
            raise UnableError(f"it returned {type(messages).__name__}, and not a list of messages as dicts")
        return MethodResult(tuple(messages), count_total_tokens(messages), seconds)


def has_search(method: Method) -> bool:
    """Tells whether a method keeps the originals and gives its agent a search: Tenfold's policies do."""
    return isinstance(method, Preset | SettingsPolicy)


def load_method(reference: str) -> OwnMethod:
    """Loads a function as MODULE:FUNCTION; modules in the working folder are found too.

    Raises `UsageError` if there is none.
    """
    module, _, name = reference.partition(":")
    folder = str(Path.cwd())
    try:
        sys.path.insert(0, folder)
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise UsageError(f"{reference!r} names no function ({exc}): give MODULE:FUNCTION, as in mine:compact") from exc
    finally:
        sys.path.remove(folder)
    if not callable(function):
        raise UsageError(f"{reference!r} is {function!r}, and no function of (messages, budget)")
    return OwnMethod(reference, function)


def get_methods(names: Sequence[str], cases: Sequence[Case] = ()) -> list[Method]:
    """Returns the methods of these names in order, each once; "all" stands for every method.

    `cases` hold the real summaries. Raises `UsageError`, with the known names, for any other name.
    """
    real, settings = RealSummaries(tuple(c for c in cases if c.summary)), load_settings()
    known: dict[str, Method] = {"tenfold": Preset("tenfold")}
    known |= {name: Preset(name) for name in POLICIES}
    known |= {name: SettingsPolicy(name, settings) for name in settings.presets if name not in POLICIES}
    known |= {**BASELINES, **CONTROLS}
    known[real.name] = real
    chosen: dict[str, Method] = {}
    for name in names:
        if ":" in name:
            chosen[name] = load_method(name)
        elif name == ALL:
            chosen |= {k: m for k, m in known.items() if m is not real or real.cases}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise UsageError(
                f"no method is called {name!r}; there are {ALL}, {', '.join(known)}; MODULE:FUNCTION is one of your own"
            )
    return list(chosen.values())
