"""Renders a stored session as a file: in its own format, or as the messages of a provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, Pin, Retraction
from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire import DEFAULT_WIRE, WIRES
from tenfold.errors import UsageError
from tenfold.formats import FORMATS, render_sessions
from tenfold.formats.export_items import get_original_items, get_view_items
from tenfold.store.base import SessionRow, Store


class RenderedSession(Struct, frozen=True):
    """The bytes of a file, and what whoever reads it should know, one sentence each."""

    data: bytes
    notes: tuple[str, ...] = ()


def render_session(
    store: Store,
    namespace: str,
    row: SessionRow,
    open_view: Callable[[], View],
    *,
    format: str = "",
    is_original: bool = False,
) -> RenderedSession:
    """Renders what the model sees, or with `is_original` all messages as they came, byte for byte in their own format.

    `open_view` opens the view of the head that is meant, which the originals of a file do not need. `format` is the
    session's own if it is empty, else a wire. Raises `UsageError` for a format in which the session cannot be written.
    """
    own = row.info.format
    target, notes = format or own or DEFAULT_WIRE, list[str]()
    if not (format or own):
        notes.append(f"a session of no file has no format of its own: written as {DEFAULT_WIRE}; --as names another")
    if target == own and own in FORMATS:
        items = get_original_items(store, namespace, row.info.id) if is_original else get_view_items(open_view())
        if is_original and row.info.interleaving and not any(number for number, _, _ in row.info.interleaving):
            return RenderedSession(render_sessions([(row.info, items)]), tuple(notes))
        file_format = FORMATS[own]
        info = row.info if is_original else file_format.without_damaged(row.info)
        return RenderedSession(file_format.render_file(info, items), tuple(notes))
    if target not in WIRES:
        raise UsageError(
            f"a {own or 'plain'} session cannot be written as {target!r}: "
            f"give {own + ', ' if own in FORMATS else ''}{', '.join(WIRES)}"
        )
    shown = open_view()
    rendered = _encode_for_wire(_unfold_path(shown.path) if is_original else shown.get_messages(), target)
    return replace(rendered, notes=(*notes, *rendered.notes))


def _encode_for_wire(messages: list[Message], wire: str) -> RenderedSession:
    if WIRES[wire].profile.has_separate_system:  # the list is all that is written, so a summary has to stand in it
        messages = [replace(m, role="user") if (m.role, m.origin) == ("system", "tenfold") else m for m in messages]
    encoded, notes = WIRES[wire].encode(messages), list[str]()
    kinds = Counter(adjustment.kind for adjustment in encoded.adjustments)
    if encoded.system:
        count = len(encoded.system)
        texts = "1 system text: put it" if count == 1 else f"{count} system texts: put them"
        notes.append(f"the list leaves out {texts} into the request's system field")
    if kinds:
        notes.append("adjusted for this format: " + ", ".join(f"{kind} {count}" for kind, count in kinds.items()))
    return RenderedSession(b"[" + b",\n".join(item.raw for item in encoded.items) + b"]\n", tuple(notes))


def _unfold_path(path: Path) -> list[Message]:
    """Returns the whole path as it could have been sent to a model, with no Block applied."""
    entries = path.get_entries(0, path.length - 1) if path.length else []
    return View.from_path(
        Path(e for e in entries if not isinstance(e, Block | Retraction | Pin | Attempt))
    ).get_messages()
