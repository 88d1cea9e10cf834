"""Opens a session by its id in one line: `tenfold.open_session("support-42", model="gpt-4o")`.

What is not named comes from what the session was opened with before, then from the settings.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.trigger.limits import check_window
from tenfold.config.policies import get_preset
from tenfold.config.settings import LivePolicy, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import UsageError, suggest_nearest
from tenfold.models.choose import resolve_models
from tenfold.models.model import Model
from tenfold.session.async_facade import AsyncSession
from tenfold.session.compactor import build_provider, check_model
from tenfold.session.conversation import SessionAddress
from tenfold.session.drive import Answerer
from tenfold.session.facade import Session
from tenfold.store.base import MAIN, MEMORY_LOCATION, SessionInfo, Store
from tenfold.store.ids import IDS
from tenfold.store.location import get_default_location, is_database, open_store

_OPEN_STORES: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()
"""The stores that were opened by their location, as long as a session uses them."""
_LOCK = threading.Lock()


class SessionOptions(TypedDict, total=False):
    """What may be named when a session is opened, as for `open_session`. The adapters of frameworks take the same."""

    model: str
    window: int | None
    policy: str | Policy
    store: Store | str | os.PathLike[str] | None
    summarizer: Model | str | None
    namespace: str
    head: str


def check_options(options: Mapping[str, Any]) -> None:
    """Raises `UsageError` for an option that does not exist, or has a wrong value, before anything is opened."""
    for name in options:
        if name not in SessionOptions.__annotations__:
            known = SessionOptions.__annotations__
            raise UsageError(f"there is no option {name!r}{suggest_nearest(name, known)}; there are {', '.join(known)}")
    window, policy = options.get("window"), options.get("policy") or ""
    check_model(options.get("model"))
    if window is not None:
        check_window(window)
    if isinstance(policy, str) and policy:
        get_preset(policy, instances=load_settings().presets)


def open_session(  # noqa: PLR0913 - everything after the id is by keyword
    id: str = "",
    *,
    model: str = "",
    window: int | None = None,
    policy: str | Policy = "",
    store: Store | str | os.PathLike[str] | None = None,
    summarizer: Model | str | None = None,
    namespace: str = "",
    head: str = MAIN,
) -> Session:
    """Opens the session `id`, or begins it. Without an id, it is a new session with an id of its own.

        session = tenfold.open_session("support-42", model="gpt-4o")
        request = session.before_model({"model": "gpt-4o", "messages": history})

    `model` is the agent's, by which its window and tokenizer are known; name the `window`, in tokens, if they are not.
    `policy` is a Policy, or the name of one: a preset, or an instance from the settings. `store` is an open store, a
    path, ":memory:" or the address of a PostgreSQL database. `summarizer` writes the summaries: the name of a model, as
    in "anthropic:claude-haiku-4-5", or an object with `answer(ask)`; without one, code does. `namespace` is the tenant,
    and `head` the branch.

    The names of the model and the policy, and the window, are kept with the session: the next time, in any process, its
    id is enough. A session without a message leaves nothing in the store. What was never named comes from the settings
    (`tenfold.toml` and `TENFOLD_*`), as do your extensions.

    Call it once for a conversation and keep the session, or once for each request: both give the same views. The
    sessions of a process share the connection to a store, which is closed when the last of them is gone.

    Raises `UsageError` for a name that is unknown or a setting that is wrong, and what `open_store` raises.
    """
    check_model(model)
    if window is not None:
        check_window(window)
    config = load_settings()
    common = config.common
    place = common.store or None if store is None else store
    opened = _share_store(place, redact_at_rest=common.redact_at_rest)
    address = SessionAddress(opened, id or IDS.generate(), namespace or common.namespace, head)
    name = policy if isinstance(policy, str) else ""
    named = SessionInfo(address.session, model=model, policy=name, window=window or 0)
    known = opened.read_info(address.namespace, address.session) if id else None
    info = _add_named(named, known)
    provider = (
        build_provider(policy, model) if isinstance(policy, Policy) else _follow_settings(info.policy, info.model)
    )
    answerer = Answerer(model=_open_summarizer(summarizer, resolve_models(provider().summary.models, info.model)))
    keep_named = partial(_keep_named, address, named)
    if known is not None:
        keep_named()
    session = Session(
        address,
        provider,
        model=info.model,
        answerer=answerer.with_extensions(config.load_extensions(info.policy)),
        archive=config.load_archive(info.policy),
        create=keep_named if known is None else None,
    )
    session.compactor.use_window(info.window or None)
    return session


async def aopen_session(id: str = "", **options: Unpack[SessionOptions]) -> AsyncSession:
    """Opens a session like `open_session`, for asyncio programs. It runs in a thread, and blocks no event loop."""
    return AsyncSession(await asyncio.to_thread(lambda: open_session(id, **options)))


def _add_named(named: SessionInfo, known: SessionInfo | None) -> SessionInfo:
    """Returns what is known of a session with what was named for it. Another model has another window."""
    if known is None:
        return named
    window = named.window or (known.window if named.model in ("", known.model) else 0)
    return replace(known, model=named.model or known.model, policy=named.policy or known.policy, window=window)


def _keep_named(address: SessionAddress, named: SessionInfo) -> None:
    """Keeps what was named with the session. Somebody else may have begun it meanwhile, or have named the same."""
    known = address.store.read_info(address.namespace, address.session)
    if (info := _add_named(named, known)) != known:
        address.store.create(address.namespace, info)


def _share_store(place: Store | str | os.PathLike[str] | None, *, redact_at_rest: bool) -> Store:
    """Opens a store, or returns the one that is open in this process already. A store in memory is a new one."""
    if place is not None and not isinstance(place, str | os.PathLike):
        return place
    location = get_default_location() if place is None else os.fspath(place)
    if location == MEMORY_LOCATION:
        return open_store(location, redact_at_rest=redact_at_rest)
    path = location if is_database(location) else str(Path(location).absolute())
    key = f"{os.getpid()} {redact_at_rest} {path}"
    with _LOCK:
        store = _OPEN_STORES.get(key)
        if store is None:
            store = _OPEN_STORES[key] = open_store(location, redact_at_rest=redact_at_rest)
    return store


def _follow_settings(name: str, model: str) -> LivePolicy:
    """Returns the policy of that name, or the configured one, as the settings describe it at each check."""
    environ = {**os.environ, "TENFOLD_POLICY": name} if name else None
    return LivePolicy(choose_counter(model or None).counter, environ=environ)


def _open_summarizer(given: Model | str | None, configured: Sequence[str]) -> Model | None:
    """Opens what writes the summaries: what was given, else the configured models, else None: code writes them."""
    if given is not None and not isinstance(given, str):
        if not callable(getattr(given, "answer", None)):
            raise UsageError(f"summarizer is {given!r}: it is the name of a model, or an object with answer(ask)")
        return given
    names = (given,) if given else configured
    if not names:
        return None
    from tenfold.models.provider import ProviderModel  # noqa: PLC0415 - an extra, and slow to import

    return ProviderModel(*names)
