"""headroom-ai: `compress`, without its text model, which it would download."""

from __future__ import annotations

import copy

from headroom import compress
from serving import Chat, Tried, fitted, serve


def compressed(past: list[Chat], budget: int, window: int | None) -> Tried:
    """It has no target. Searched: `protect_recent`, the newest messages it leaves alone."""

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

    return fitted(run, past, budget, len(past))


if __name__ == "__main__":
    serve({"compress": compressed}, ["headroom-ai"])
