"""The rungs of a summary: model, stricter budget, next model, extractive, mechanical. Only values; no Ask is made."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.record.block import Rung, Spent

OnFailure = Literal["ladder", "keep_stages", "abort"]

SIZE_PHRASES = ("context", "too long", "too large", "maximum", "token", "413")
"""What an error says when the request was too big: then the same model gets a smaller one."""


class Settings(Struct, frozen=True):
    """How summaries are written. No `models`: by code alone, without any Ask.

    `system`, `first`, `update`, `prefix`, `batch`, `merge`, `branch` and `repair` are prompt texts; `{allotment}`,
    `{headings}`, `{focus}` and `{failures}` in them are replaced. `headings` are lines the summary must hold, in order.
    `input_tokens` bounds what a model is sent. The message that carries a summary has `role`, and `opening` and
    `closing` stand in it around what was written.
    """

    models: tuple[str, ...] = ()
    system: str = ""
    first: str = ""
    update: str = ""
    prefix: str = ""
    batch: str = ""
    merge: str = ""
    branch: str = ""
    repair: str = ""
    headings: tuple[str, ...] = ()
    on_failure: OnFailure = "ladder"
    input_tokens: int = 60_000
    stricter: float = 0.6
    role: Literal["user", "system"] = "user"
    opening: str = ""
    closing: str = ""


class Step(Struct, frozen=True):
    """One try with a model. `share` of the allotment and of the input is used."""

    rung: Rung
    model: str
    share: float = 1.0


class Written(Struct, frozen=True):
    """A summary's text and how it came about. `failed` is the reason when none is to be used (then `text` is "")."""

    text: str
    rung: Rung
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()
    failed: str = ""


def steps_of(settings: Settings) -> tuple[Step, ...]:
    """The tries with models, in order: the first one, the first one again with less, then each further model."""
    if not settings.models:
        return ()
    first, *others = settings.models
    return (
        Step(rung="model", model=first),
        Step(rung="stricter", model=first, share=settings.stricter),
        *(Step(rung="next_model", model=model) for model in others),
    )


def worth_trying(step: Step, error: str) -> bool:
    """Whether a step makes sense after the one before it failed with `error` ("" when it answered, but badly)."""
    if step.rung != "stricter" or not error:
        return True
    lowered = error.lower()
    return any(phrase in lowered for phrase in SIZE_PHRASES)


def added(before: Spent, after: Spent) -> Spent:
    """What two lots of model calls cost together; the price is unknown as soon as one price is."""
    prices = (before.price if before.calls else 0.0, after.price)
    price = None if None in prices else sum(price for price in prices if price is not None)
    return Spent(
        calls=before.calls + max(after.calls, 1),
        input_tokens=before.input_tokens + after.input_tokens,
        output_tokens=before.output_tokens + after.output_tokens,
        model=after.model or before.model,
        price=price,
    )
