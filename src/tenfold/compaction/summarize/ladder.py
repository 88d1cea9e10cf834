"""What a text is written from and how: the task, the settings, the rungs of the ladder. No Ask is made here."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.tool_calls import NO_TOOL_NAMES, ToolNames
from tenfold.compaction.summarize.headings import BRANCH_HEADINGS
from tenfold.compaction.summarize.transcript import TranscriptStyle
from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import DEFAULT_TIMEOUT, DEFAULT_TRIES, Answer, Ask, Effort
from tenfold.core.record.block import NO_BATCHES, Batches, ModelCost, Rung
from tenfold.core.record.fact import Fact, Rule
from tenfold.core.record.message import Message

OnFailure = Literal["ladder", "keep_stages", "abort"]
Purpose = Literal["first", "update", "prefix", "batch", "merge", "branch", "repair"]
RUNGS: tuple[Rung, ...] = ("none", "model", "stricter", "next_model", "extractive", "mechanical")
"""From the best to the last resort. A text written in pieces is on the lowest one that any of them needed."""

T = TypeVar("T")
Asking = Generator[tuple[Ask, ...], tuple[Answer, ...], T]
"""Yields Asks, receives their Answers, and returns its result."""

STRICTER_SHARE = 0.6
"""What the second try with a model has of the allotment and of the input."""
SIZE_PHRASES = ("context", "too long", "too large", "maximum", "token", "413")
"""What an error says if the request was too big. The same model then gets a smaller one."""


class SummarySettings(Struct, frozen=True):
    """How summaries are written. Without `models` they are written by code alone, without any Ask.

    `no_model` says why there is no model although one was to be chosen: then a policy that keeps its stages shows those
    without a summary, and the Outcome's notes say it.

    `headings` are those that a summary is written under, in order; without them it is free prose. `system` to `repair`
    are prompt texts, in which `{allotment}`, `{structure}`, `{focus}` and `{failures}` are replaced. `sections` says
    what belongs under each heading, `told` what free prose covers. Empty texts are filled from the package by
    `with_prompts`. `instructions` is the policy's own wish, put beside the caller's focus.

    A model is sent at most `input_tokens`. If that is 0, it is `input_share` of its window if known, else
    `DEFAULT_INPUT_TOKENS`. Longer input is summarized in at most `chunks` pieces, each folded into the text so far. A
    call may take `timeout` seconds and is made up to `tries` times if it fails for the moment. `temperature` None
    leaves it to the model. `effort` is how hard a reasoning model thinks; "" turns thinking off where possible. `style`
    is how messages are rendered for the model.

    The message that carries a summary has `role`, and `opening` and `closing` around the text. `facts_per_text` is
    how many tokens the facts section may take for each token of the text; None sets no such bound. `tools` says of
    tools of the host whether they change the world: what such a call did is told, where a lookup is a count.
    """

    models: tuple[str, ...] = ()
    no_model: str = ""
    system: str = ""
    first: str = ""
    update: str = ""
    merge: str = ""
    branch: str = ""
    repair: str = ""
    headings: tuple[str, ...] = ()
    on_failure: OnFailure = "ladder"
    input_tokens: int = 0
    role: Literal["user", "system"] = "user"
    opening: str = ""
    closing: str = ""
    sections: str = ""
    told: str = ""
    instructions: str = ""
    input_share: float = 0.8
    chunks: int = 8
    timeout: float = DEFAULT_TIMEOUT
    tries: int = DEFAULT_TRIES
    temperature: float | None = None
    effort: Effort = ""
    style: TranscriptStyle = "numbered"
    facts_per_text: float | None = None
    tools: ToolNames = NO_TOOL_NAMES

    @property
    def is_strict(self) -> bool:
        """Whether an answer that is no summary by itself is a failure, and nothing that code mends.

        A policy that keeps its stages shows those instead: they say more than headings filled by code.
        """
        return self.on_failure == "keep_stages"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the Outcome says of these settings: why no model can be asked, if one was to be chosen."""
        return (f"no model was asked for a summary: {self.no_model}",) if self.no_model and not self.models else ()

    @property
    def keeps_stages_alone(self) -> bool:
        """Whether no summary can come, and the stages that need none are all that is shown."""
        return bool(self.notes) and self.on_failure == "keep_stages"

    def get_prompt(self, purpose: str) -> str:
        """Returns the prompt for a text of this purpose; for a batch that of a first text."""
        prompts = {"update": self.update, "merge": self.merge, "branch": self.branch}
        return prompts.get(purpose, self.first)

    def list_headings(self, purpose: str) -> tuple[str, ...]:
        """Returns the headings that a text of this purpose must hold, in order."""
        if purpose == "branch":
            return BRANCH_HEADINGS if not self.branch or "{structure}" in self.branch else ()
        return self.headings

    def get_input_limit(self, model: str, answer: int, window: int | None = None) -> int:
        """Returns the most tokens to send to `model` so that an answer of `answer` tokens still fits its window.

        `window` is taken for the model's where nobody knows that one.
        """
        window = (find_window(model) if model else None) or window
        if window is None:
            return self.input_tokens or DEFAULT_INPUT_TOKENS
        left = max(window - answer, window // 4)
        return min(self.input_tokens or int(window * self.input_share), left)


PROMPT_FIELDS = ("system", "first", "update", "merge", "branch", "repair", "sections", "told")
"""The fields of `SummarySettings` that hold a packaged text unless one is given."""
DEFAULT_INPUT_TOKENS = 60_000
"""The most tokens sent to a model whose window is not known. With the answer it fits every hosted model of today."""


class SummaryTask(Struct, frozen=True):
    """What is to be summarized, in at most `allotment` tokens.

    `facts` are already merged; `focus` is what the caller asks to dwell on. `previous` is an earlier summary that the
    new text updates and replaces. `parts` are several summaries to be merged into one, oldest first. `context` is
    earlier text that helps to understand the messages and is not repeated. The messages at the positions in `kept` stay
    in view beside the summary, but for the part that is given there. `told` is a text below the summary; what it says
    need not be told again. With `has_notes` a model wrote one of the earlier texts. `prompt` takes the place of the one
    that the settings have for the purpose, and `headings` are then those that it asks for.
    """

    items: tuple[tuple[int, Message], ...]
    facts: tuple[Fact, ...] = ()
    previous: str = ""
    allotment: int = 1_000
    purpose: Purpose = "first"
    focus: str = ""
    context: str = ""
    parts: tuple[str, ...] = ()
    kept: Mapping[int, str] = {}
    told: str = ""
    prompt: str = ""
    headings: tuple[str, ...] = ()
    has_notes: bool = False

    def list_headings(self, settings: SummarySettings) -> tuple[str, ...]:
        """Returns the headings that the text must hold, in order."""
        return self.headings if self.prompt else settings.list_headings(self.purpose)

    @property
    def earlier_texts(self) -> tuple[str, ...]:
        """The earlier summaries that the new text replaces, oldest first."""
        return tuple(text for text in (self.previous.strip(), *(part.strip() for part in self.parts)) if text)


class LadderStep(Struct, frozen=True):
    """One try with a model. It uses `share` of the allotment and of the input."""

    rung: Rung
    model: str
    share: float = 1.0


class SummaryResult(Struct, frozen=True):
    """A summary's text and how it was written. `failure` is the reason if no text may be used (then `text` is "").

    `batches` are the texts of a writer of several. `rules` are sentences of the user that the text's model quoted as
    instructions, and that code found in what the user wrote.
    """

    text: str
    rung: Rung
    notes: tuple[str, ...] = ()
    spent: ModelCost = ModelCost()
    failure: str = ""
    batches: Batches = NO_BATCHES
    rules: tuple[Rule, ...] = ()

    def reject(self) -> SummaryResult:
        """Returns the result as a failure. Its notes say why no model's text may be used."""
        return replace(self, failure="no model gave a usable summary: " + "; ".join(self.notes))


WritingGenerator = Asking[SummaryResult]


def list_steps(settings: SummarySettings) -> tuple[LadderStep, ...]:
    """Returns the tries with models, in order: the first model, that one again with less, then each further model."""
    if not settings.models:
        return ()
    first, *others = settings.models
    return (
        LadderStep(rung="model", model=first),
        LadderStep(rung="stricter", model=first, share=STRICTER_SHARE),
        *(LadderStep(rung="next_model", model=model) for model in others),
    )


def is_worth_trying(step: LadderStep, error: str) -> bool:
    """Tells whether a step makes sense after the one before failed with `error` ("" if it answered, but badly)."""
    if step.rung != "stricter" or not error:
        return True
    lowered = error.lower()
    return any(phrase in lowered for phrase in SIZE_PHRASES)
