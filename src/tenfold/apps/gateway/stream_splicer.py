"""Passes a streamed answer on while it comes, hides lookups in it, and joins it with the answers that follow."""

from __future__ import annotations

from msgspec import Struct

from tenfold.apps.gateway.event_stream import StreamEvent
from tenfold.apps.gateway.model_answers import READ_FAULTS
from tenfold.apps.gateway.streamed_answers import StreamForm, StreamPiece

_DONE = StreamPiece("end", {})


class _HeldPiece(Struct, frozen=True):
    """A piece of an event that may still be passed on, and the round it is from."""

    piece: StreamPiece
    event: StreamEvent
    round: int


class StreamSplicer:
    """Takes the events of one round after the other and says which bytes the client gets.

    What the model thinks is held back until it says something, since thinking that led to a lookup belongs to it. From
    a lookup on, the rest of a round is hidden, unless the client already has a call of the same round, or it is the
    last round: then the lookup is left out and everything else passes.
    """

    def __init__(self, form: StreamForm) -> None:
        """`form` is that of the answers."""
        self._form = form
        self._held: list[_HeldPiece] = []
        self._lead: list[_HeldPiece] = []
        self._hidden_end: list[_HeldPiece] = []
        self.faults = 0
        self._is_last = self._is_passing = self._has_call = False
        self.is_hiding = self.is_stripped = self.has_error = self.has_passed = False

    def start_round(self, *, is_last: bool) -> None:
        """Begins with the answer to the next request."""
        self._form.start_round()
        self._form.lacks_calls = False
        self._held, self._hidden_end = [], []
        self._is_last, self._is_passing, self._has_call = is_last, False, False
        self.is_hiding = self.is_stripped = False

    @property
    def is_empty(self) -> bool:
        """Whether the round has ended and the client has nothing to go on with: there was nothing but lookups."""
        return self.is_stripped and not self.has_passed and not self.has_error

    def take(self, event: StreamEvent) -> bytes:
        """Takes an event and returns what is passed on. One that is not written as its API says passes as it is."""
        try:
            return self._take_event(event)
        except READ_FAULTS:
            self.faults += 1
            return b"" if self.is_hiding else event.raw

    def _take_event(self, event: StreamEvent) -> bytes:
        if event.value is None:
            pieces = [StreamPiece("other", {}) if event.is_comment else _DONE]
        else:
            pieces = self._form.read(event.value)
        return b"".join(self._take_piece(_HeldPiece(piece, event, self._form.round)) for piece in pieces)

    def finish_round(self, rest: bytes) -> bytes:
        """Ends a round whose stream has ended. `rest` are the bytes of an event that is not complete."""
        return b"" if self.is_hiding or self.is_empty else self._flush() + rest

    def end_hidden(self) -> bytes:
        """Ends the client's answer where the next one cannot be had. Empty if the client has nothing to end yet."""
        if not self.has_passed:
            return b""
        self._form.lacks_calls = True
        return b"".join(self._place(held, is_mended=True) for held in self._hidden_end)

    def build_error(self, body: bytes) -> bytes:
        """Builds the event that says that the answer failed."""
        return self._form.build_error(body)

    def _take_piece(self, held: _HeldPiece) -> bytes:
        kind = held.piece.kind
        if kind == "error":
            self.has_error = True
            return (b"" if self.is_hiding else self._flush()) + self._place(held)
        if self._form.opened_in and (held.event.is_comment or held.piece.value.get("type") == "ping"):
            return held.event.raw  # it says that there is more to come, whatever is held back
        if self.is_hiding:
            if kind == "end":
                self._hidden_end.append(held)
            return b""
        if kind == "recall":
            self._take_recall()
            return b""
        if kind == "thinking" or (kind in ("opening", "other") and (not self._is_passing or self._held)):
            self._held.append(held)
            return b""
        if kind == "end" and self.is_stripped and not self.has_passed:
            return b""
        if kind in ("content", "call"):
            self.has_passed = True
            self._has_call = self._has_call or kind == "call"
        out = self._flush()
        return out + self._place(held, is_mended=kind == "end" and self.is_stripped and not self._has_call)

    def _take_recall(self) -> None:
        thought = [held for held in self._held if held.piece.kind == "thinking"]
        self._held = [held for held in self._held if held.piece.kind != "thinking"]
        if self._form.form.keeps_thinking:
            self._lead = self._lead or thought
        if self._has_call or self._is_last:
            self.is_stripped = self._form.lacks_calls = True
        else:
            self.is_hiding = True

    def _flush(self) -> bytes:
        """Passes what was held back. An answer begins with thinking if that is where the hidden one began."""
        held, self._held, self._is_passing = self._held, [], True
        lead, self._lead = self._lead, []
        thinks = any(each.piece.kind == "thinking" for each in held)
        if lead and not thinks and not self._form.opened_in:
            held = [*held, *lead]
        return b"".join(map(self._place, held))

    def _place(self, held: _HeldPiece, *, is_mended: bool = False) -> bytes:
        piece, event = held.piece, held.event
        self._form.opened_in = self._form.opened_in or self._form.round
        if event.value is None:
            return event.raw
        value = self._form.mend_end(piece.value) if is_mended else piece.value
        placed = self._form.place(piece.kind, value, held.round)
        if placed is None:
            return b""
        return event.raw if placed is event.value else event.with_value(placed)
