"""A user's functions in the course of a session and an agent: hooks that have a say, and listeners that are told.

    keep = Extension("keep")

    @keep.before
    def not_while_releasing(consult: Consult) -> Answer | None: ...

    @keep.on(Warned, Overflowed)
    def tell(event: Warned | Overflowed) -> None: ...

Give it to an `Agent`, put it on an `Answerer` with `applied`, or name it under `extensions` in the settings. What
raises is reported and ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar, get_args

from msgspec.structs import replace

from tenfold.drive import After, Answerer, Before
from tenfold.errors import UsageError
from tenfold.events import Event, Listener

Asked = TypeVar("Asked", bound=Before)
Told = TypeVar("Told", bound=After)
Heard = TypeVar("Heard", bound=Callable[..., object])
KINDS: tuple[type[Event], ...] = get_args(Event)
"""The types of events that there are."""


class Extension:
    """Hooks and listeners under one name, registered by decorators. All of them are plain functions, not coroutines."""

    def __init__(self, name: str) -> None:
        """`name` is what reports call it."""
        self.name = name
        self._before: list[Before] = []
        self._after: list[After] = []
        self._listen: list[Listener] = []

    def before(self, hook: Asked) -> Asked:
        """Asked before a compaction, and before a branch is left (`Consult.purpose`).

        It answers None for no say, or an `Answer`: `cancel` with the reason in `error`, `text` to supply the summary,
        `focus` for what it is to dwell on.
        """
        self._before.append(self._plain(hook))
        return hook

    def after(self, hook: Told) -> Told:
        """Told of each Block once it is appended, with its Outcome."""
        self._after.append(self._plain(hook))
        return hook

    def on(self, *kinds: type[Event]) -> Callable[[Heard], Heard]:
        """Told of events of these types (none: of all), on the thread where they happen. Raises `UsageError`."""
        strange = [getattr(kind, "__name__", repr(kind)) for kind in kinds if kind not in KINDS]
        if strange:
            there = ", ".join(kind.__name__ for kind in KINDS)
            raise UsageError(f"{self.name}: no type of event: {', '.join(strange)}; there are {there}")

        def register(hook: Heard) -> Heard:
            told = self._plain(hook)

            def listener(event: Event) -> None:
                if not kinds or isinstance(event, kinds):
                    told(event)

            self._listen.append(listener)
            return hook

        return register

    def _plain(self, hook: Heard) -> Heard:
        if inspect.iscoroutinefunction(hook):
            raise UsageError(f"{self.name}: {hook.__name__} is a coroutine; hooks and listeners are plain functions")
        return hook

    def applied(self, answerer: Answerer) -> Answerer:
        """The answerer with these hooks and listeners after its own."""
        return replace(
            answerer,
            before=(*answerer.before, *self._before),
            after=(*answerer.after, *self._after),
            listen=(*answerer.listen, *self._listen),
        )


def extended(answerer: Answerer, extensions: Iterable[Extension]) -> Answerer:
    """The answerer with all of these, in order."""
    for extension in extensions:
        answerer = extension.applied(answerer)
    return answerer
