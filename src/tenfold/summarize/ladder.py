"""The rungs of a summary: model, stricter budget, next model, extractive, mechanical. Only values; no Ask is made."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.meter.windows import window_of
from tenfold.record.ask import TIMEOUT, TRIES, Effort
from tenfold.record.block import Batch, Rung, Slot, Spent
from tenfold.summarize.structure import STRUCTURES, headings_of
from tenfold.summarize.transcript import Style

OnFailure = Literal["ladder", "keep_stages", "abort"]

SIZE_PHRASES = ("context", "too long", "too large", "maximum", "token", "413")
"""What an error says when the request was too big: then the same model gets a smaller one."""


class Settings(Struct, frozen=True):
    """How summaries are written. No `models`: by code alone, without any Ask.

    `structure` names the headings a summary is written under (`structure.STRUCTURES`; "": free prose); explicit
    `headings` stand in their place. `system` to `repair` are prompt texts, in which `{allotment}`, `{structure}`,
    `{focus}` and `{failures}` are replaced; `sections` says what belongs under each heading, `told` what prose tells.
    `briefing` is put behind `system` by the writer of `threshold` and `sliding`, with `{headings}` and `{words}`.
    Texts left empty are filled at the edge. `instructions` is the policy's own wish, put beside the caller's focus.
    A model is sent at most `input_tokens`; 0: `input_share` of its window where that is known, else `INPUT_TOKENS`.
    Messages beyond that are summarised in at most `chunks` pieces, each folded into the text of those before it.
    A call may take `timeout` seconds and is made `tries` times in all while it fails for the moment; `temperature` is
    the model's where none is given. `effort` is how hard a model that can reason is to think, "" for not at all where
    that can be turned off. `style` is how the messages are written down for the model.
    The message that carries a summary has `role`, and `opening` and `closing` stand in it around what was written.
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
    input_tokens: int = 0
    stricter: float = 0.6
    role: Literal["user", "system"] = "user"
    opening: str = ""
    closing: str = ""
    structure: str = ""
    sections: str = ""
    told: str = ""
    instructions: str = ""
    input_share: float = 0.8
    chunks: int = 8
    timeout: float = TIMEOUT
    tries: int = TRIES
    briefing: str = ""
    temperature: float | None = None
    effort: Effort = ""
    style: Style = "numbered"

    def wanted(self, purpose: str) -> tuple[str, ...]:
        """The headings that a text of this purpose must hold, in order. Raises `UsageError` for no known structure."""
        if purpose in ("prefix", "branch"):
            prompt = self.prefix if purpose == "prefix" else self.branch
            return STRUCTURES[purpose] if not prompt or "{structure}" in prompt else ()
        return self.headings or headings_of(self.structure)

    def input_bound(self, model: str, answer: int) -> int:
        """The most tokens that `model` is sent, so that an answer of `answer` tokens still fits its window."""
        window = window_of(model) if model else None
        if window is None:
            return self.input_tokens or INPUT_TOKENS
        left = max(window - answer, window // 4)
        return min(self.input_tokens or int(window * self.input_share), left)


PROMPTS = ("system", "first", "update", "prefix", "batch", "merge", "branch", "repair", "sections", "told", "briefing")
"""The fields of `Settings` that hold a packaged text unless one is given."""
INPUT_TOKENS = 60_000
"""What a model is sent at most where its window is not known: fits every hosted model of today with its answer."""


class Step(Struct, frozen=True):
    """One try with a model. `share` of the allotment and of the input is used."""

    rung: Rung
    model: str
    share: float = 1.0


class Written(Struct, frozen=True):
    """A summary's text and how it came about. `failed` is the reason when none is to be used (then `text` is "").

    `batches` and `standing` are what a writer of batches adds to the Block and leaves at the archive's top level.
    """

    text: str
    rung: Rung
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()
    failed: str = ""
    batches: tuple[Batch, ...] = ()
    standing: tuple[Slot, ...] = ()


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
