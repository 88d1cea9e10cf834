"""A user's own functions in a session and an agent: hooks that can intervene, and listeners that are informed.

    keep = Extension("keep")

    @keep.hook_before
    def not_while_releasing(consult: Consult) -> Answer | None: ...

    @keep.listen(Warned, Overflowed)
    def tell(event: Warned | Overflowed) -> None: ...

Give it to an `Agent`, add it to an `Answerer` with `apply_to`, or name it under `extensions` in the settings. An
exception in a hook or listener is reported and ignored.
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
"""All types of events."""


class Extension:
    """Hooks and listeners under one name, registered by decorators. They are plain functions, not coroutines."""

    def __init__(self, name: str) -> None:
        """`name` identifies the extension in error messages."""
        self.name = name
        self._before: list[Before] = []
        self._after: list[After] = []
        self._listen: list[Listener] = []

    def before(self, hook: Asked) -> Asked:
        """Registers a hook that runs before a compaction, and before a branch is left (`Consult.purpose`).

        The hook returns None if it has nothing to say, or an `Answer`: `cancel` with the reason in `error`, `text` to
        supply the summary, or `focus` to say what the summary should emphasize.
        """
        self._before.append(self._plain(hook))
        return hook

    def after(self, hook: Told) -> Told:
        """Registers a hook that receives each appended Block and its Outcome."""
        self._after.append(self._plain(hook))
        return hook

    def on(self, *kinds: type[Event]) -> Callable[[Heard], Heard]:
        """Registers a listener for events of these types, or of all types if none is given.

        It runs on the thread where the event happens. Raises `UsageError` for an unknown type.
        """
        unknown = [getattr(kind, "__name__", repr(kind)) for kind in kinds if kind not in KINDS]
        if unknown:
            names = ", ".join(kind.__name__ for kind in KINDS)
            raise UsageError(f"{self.name}: no type of event: {', '.join(unknown)}; there are {names}")

        def register(hook: Heard) -> Heard:
            callback = self._plain(hook)

            def listener(event: Event) -> None:
                if not kinds or isinstance(event, kinds):
                    callback(event)

            self._listen.append(listener)
            return hook

        return register

    def _plain(self, hook: Heard) -> Heard:
        if inspect.iscoroutinefunction(hook):
            raise UsageError(f"{self.name}: {hook.__name__} is a coroutine; hooks and listeners are plain functions")
        return hook

    def applied(self, answerer: Answerer) -> Answerer:
        """Returns the answerer with these hooks and listeners added after its own."""
        return replace(
            answerer,
            before=(*answerer.before, *self._before),
            after=(*answerer.after, *self._after),
            listen=(*answerer.listen, *self._listen),
        )


def extended(answerer: Answerer, extensions: Iterable[Extension]) -> Answerer:
    """Returns the answerer with all of these extensions, in order."""
    for extension in extensions:
        answerer = extension.applied(answerer)
    return answerer
