"""The worker of headroom-ai: `compress` without its text model, which would be a download."""

from __future__ import annotations

import copy

from headroom import compress
from serving import BEYOND, Chat, Tried, Turn, fit_setting, serve


def compress_past(past: list[Chat], budget: int, window: int | None) -> Tried:
    """Searches `protect_recent`, the newest messages that it leaves alone, because it has no target size."""

    def run(protect: int) -> list[Chat]:
        given = copy.deepcopy(past)
        made = compress(
            given,
            model="gpt-4o",
            model_limit=window or budget,
            protect_recent=protect,
            min_tokens_to_compress=1,
            kompress_model="disabled",
        )
        return list(made.messages)

    return fit_setting(run, past, budget, len(past))


def turn(past: list[Chat]) -> Turn:
    """Times `compress` with every message protected.

    It has no limit below which it does nothing. It still writes tool outputs more densely, so this is its work and not
    only a check.
    """
    history = list(past)

    def hook() -> bool:
        made = compress(
            history, model="gpt-4o", model_limit=BEYOND, protect_recent=len(history), kompress_model="disabled"
        )
        return len(made.messages) == len(history)

    return Turn(history.extend, hook)


if __name__ == "__main__":
    serve({"compress": compress_past}, ["headroom-ai"], {"compress": turn})
