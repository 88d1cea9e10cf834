"""The methods that are compared by name: those of `tenfold.testing`, and the real summaries that sessions hold.

The peers, which run in processes of their own, are in `peers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tenfold.config.policies import POLICIES
from tenfold.errors import UsageError
from tenfold.testing.chats import count_total_tokens, get_role
from tenfold.testing.methods import BASELINES, Method, MethodResult, Preset, UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import Case

ALL = "all"
SUMMARY_TEXT = "The conversation before this point was summarized:\n\n{text}"


class RealSummaries(Struct, frozen=True):
    """The summaries that models really wrote in these sessions, each with the messages that were kept beside it.

    Each summary has its own size, whatever the budget.
    """

    cases: tuple[Case, ...]
    name: str = "real-summary"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`. Raises `UnableError` if the session holds no summary at this cut."""
        del budget
        case = next((c for c in self.cases if c.summary and c.cut == len(past) and c.past == tuple(past)), None)
        if case is None:
            raise UnableError("the session holds no model-written summary at this cut")
        head = [m for m in past[: case.kept_from] if get_role(m) == "system"]
        summary: ChatMessage = {"role": "user", "content": SUMMARY_TEXT.format(text=case.summary)}
        messages = (*head, summary, *past[case.kept_from :])
        return MethodResult(messages, count_total_tokens(messages), 0.0, note="written by the session's own model")


def get_methods(names: Sequence[str], cases: Sequence[Case] = ()) -> list[Method]:
    """Returns the methods of these names in order, each once; "all" stands for every method.

    `cases` hold the real summaries. Raises `UsageError`, with the known names, for any other name.
    """
    real = RealSummaries(tuple(c for c in cases if c.summary))
    known: dict[str, Method] = {"tenfold": Preset("tenfold")}
    known |= {name: Preset(name) for name in POLICIES}
    known |= BASELINES
    known[real.name] = real
    chosen: dict[str, Method] = {}
    for name in names:
        if name == ALL:
            chosen |= {k: m for k, m in known.items() if m is not real or real.cases}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise UsageError(f"no method is called {name!r}; there are {ALL}, {', '.join(known)}")
    return list(chosen.values())
