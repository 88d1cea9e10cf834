"""A user's own functions in a session and an agent: hooks that can intervene, and listeners that are informed.

    keep = Extension("keep")

    @keep.before
    def not_while_releasing(consult: ConsultAsk) -> Answer | None: ...

    @keep.on(CompactionWarning, RequestOverflow)
    def tell(event: CompactionWarning | RequestOverflow) -> None: ...

Give it to an `Agent`, add it with `Answerer.with_extensions`, or name it under `extensions` in the settings. An
exception in a hook or listener is reported and ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

from tenfold.errors import UsageError
from tenfold.events import AfterHook, BeforeHook, Event, Listener

BeforeT = TypeVar("BeforeT", bound=BeforeHook)
AfterT = TypeVar("AfterT", bound=AfterHook)
HookT = TypeVar("HookT", bound=Callable[..., object])
EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)
"""All types of events."""


class Extension:
    """Hooks and listeners under one name, registered by decorators: plain functions or coroutine functions."""

    def __init__(self, name: str) -> None:
        """`name` identifies the extension in error messages."""
        self.name = name
        self.before_hooks: list[BeforeHook] = []
        self.after_hooks: list[AfterHook] = []
        self.listeners: list[Listener] = []

    def before(self, hook: BeforeT) -> BeforeT:
        """Registers a hook that runs before a compaction, and before a branch is left (`ConsultAsk.purpose`).

        The hook returns None if it has nothing to say, or an `Answer`: `cancel` with the reason in `error`, `text` to
        supply the summary, or `focus` to say what the summary should emphasize.
        """
        self.before_hooks.append(hook)
        return hook

    def after(self, hook: AfterT) -> AfterT:
        """Registers a hook that receives each appended Block and its Outcome."""
        self.after_hooks.append(hook)
        return hook

    def on(self, *kinds: type[Event]) -> Callable[[HookT], HookT]:
        """Registers a listener for events of these types, or of all types if none is given.

        A plain function runs on the thread where the event happens. Raises `UsageError` for an unknown type.
        """
        unknown = [getattr(kind, "__name__", repr(kind)) for kind in kinds if kind not in EVENT_TYPES]
        if unknown:
            names = ", ".join(kind.__name__ for kind in EVENT_TYPES)
            raise UsageError(f"{self.name}: no type of event: {', '.join(unknown)}; there are {names}")

        def register(hook: HookT) -> HookT:
            def notify(event: Event) -> Any:  # noqa: ANN401 - what a user's function returns, perhaps to be awaited
                return hook(event) if not kinds or isinstance(event, kinds) else None

            self.listeners.append(notify)
            return hook

        return register
