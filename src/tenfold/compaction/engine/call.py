"""What a caller asks of the engine, and how the engine measures."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.trigger.economy import Rates
from tenfold.compaction.trigger.limits import Demand, Limits
from tenfold.core.meter.estimators import Calibration
from tenfold.core.meter.media_counts import NO_MEDIA, MediaTokens
from tenfold.core.meter.reading import TokenCache
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.fold import View


class Call(Struct, frozen=True):
    """One request for a compaction. It holds everything that the engine may not look up by itself.

    `session.compactor.build_call` fills in what the session knows; replace the fields that shall be different.

    - `demand` says who asks. A check obeys the policy's trigger. A person's request does not wait for it.
    - `to` is the target, in tokens by the policy's counter. Without it, the policy's trigger chooses one for `window`.
    - `window` is the model's context window in tokens, None if nobody knows it. `output_reserve` of it are kept free
      for the answer.
    - `model` names the agent's model. `calibration` is what its provider has reported so far. `find_rates` looks up its
      prices, once there is a receipt to write. `least_slope` is how many tokens the provider counts at least for one of
      ours: a request that it refused has shown it. It is 0 if it refused none.
    - `floor` counts what is sent besides the view, by the policy's counter: a system prompt and tools.
    - `recall` says how a stub tells the model where to read the original. `focus` is what a summary should dwell on.
    - With `has_before_hooks`, the engine consults the before-hooks once it has a plan.
    - `run` is the id of the run that the Block belongs to.
    - `limits` are the policy's limits for this window and floor, if the caller has computed them already.
    - `supplied` names a summary that the caller has already. Another summary is another demand.
    """

    demand: Demand = "manual"
    to: Counted | None = None
    window: int | None = None
    output_reserve: int = 0
    model: str = ""
    floor: Counted = NO_TOKENS
    recall: RecallMode = "none"
    focus: str = ""
    calibration: Calibration = Calibration()
    has_before_hooks: bool = False
    run: str = ""
    limits: Limits | None = None
    find_rates: Callable[[str], Rates | None] | None = None
    least_slope: float = 0.0
    supplied: str = ""


def measure_no_media(_: View) -> MediaTokens:
    """Measures a view as if it were all text, so that a Reading of it has bounds for text alone."""
    return NO_MEDIA


class Measures(Struct, frozen=True):
    """How a compaction measures: a cache of message tokens, and functions that count a view and what is not text in it.

    What is not text is in the count as well; it is measured apart for the bounds of a Reading.
    """

    token_cache: TokenCache
    count_view: Callable[[View], Counted]
    measure_media: Callable[[View], MediaTokens] = measure_no_media


def describe_demand(call: Call) -> str:
    """Describes the demand as a Block records it. Two equal ones with no message between count as one (law 6)."""
    if call.supplied:
        return f"{call.demand}, summary {call.supplied} supplied"
    if call.to is not None:
        return f"{call.demand} to {call.to:,}"
    return f"{call.demand} in a window of {call.window:,}" if call.window is not None else call.demand


def find_reported_slope(call: Call, policy: Policy) -> tuple[tuple[float, Counted], ...]:
    """Finds how many tokens the smallest request took for each that we count. Empty before the first report."""
    row = call.calibration.find_model(call.model, policy.counter.name)
    if row is None or row.smallest_estimate <= 0:
        return ()
    return ((row.reported_at_smallest / row.smallest_estimate, NO_TOKENS),)


def find_own_counts(call: Call, policy: Policy) -> tuple[tuple[float, Counted], ...]:
    """Finds what our own count stands for without reports: by the factor of the model's family, and as it is.

    Each is a slope, and our count of what a request holds besides the view. Where no whole requests were seen, only the
    count as it is says something: a log of another tool may hold another part of what was sent.
    """
    model, counter, none = call.model, policy.counter.name, NO_TOKENS
    factor = policy.estimator.get_factor(model, counter)
    if policy.estimator.covers_overhead:
        return ((factor, none), (1.0, none))
    row = call.calibration.find_model(model, counter)
    if row is None or call.calibration.find_seen(model, counter) is None:
        return ((1.0, none),)
    return ((factor, row.last_overhead), (1.0, row.last_overhead), (1.0, none))
