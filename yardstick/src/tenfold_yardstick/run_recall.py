"""What a run costs, and what its agent still saw: a replay's bill with the recall of the same run beside it.

A view at the end of a run says little of the run. So at five moments of it, spread evenly over its requests, code looks
up what the rest of the session needed of what came before, and whether the request that was then sent still showed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from tenfold.config.settings import build_policy
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.models.prices import Prices
from tenfold.testing.chats import get_counter
from tenfold.testing.identifier_finder import has_identifier
from tenfold_yardstick.cases import Case
from tenfold_yardstick.future_recall import NeededFact, find_needed_facts
from tenfold_yardstick.players import Player, PlayerFactory, PolicyPlayer, Recording, ReplayRequest, StandInModel
from tenfold_yardstick.replay import SessionReplay, replay_session

MOMENTS = 5
"""At how many moments of a run its requests are looked at."""


class Moment(Struct, frozen=True):
    """A request that is looked at: its number, and what the agent needed from then on of what came before."""

    request: int
    facts: tuple[NeededFact, ...]


class SeenRun(Struct, frozen=True):
    """A replay, with how many of the facts that were needed at its moments its requests still showed."""

    replay: SessionReplay
    present: int
    needed: int


def find_moments(recording: Recording) -> list[Moment]:
    """Finds the moments of a run, with what was needed there. Moments at which nothing was needed are left out."""
    answers = recording.answer_indexes
    numbers = sorted({len(answers) * number // (MOMENTS + 1) for number in range(1, MOMENTS + 1)})
    found = []
    for number in numbers:
        case = Case(recording.name, answers[number], "moment", recording.chat_messages)
        facts = tuple(find_needed_facts(case))
        found += [Moment(number, facts)] if facts else []
    return found


def see_run(  # noqa: PLR0913 - those of `replay_session`, and the moments
    recording: Recording,
    moments: Sequence[Moment],
    method: str,
    build_player: PlayerFactory,
    *,
    window: int,
    prices: Sequence[Prices],
    fills_window: bool = False,
) -> SeenRun:
    """Plays a session with a policy and looks at its requests. A player without `read_view` shows everything.

    For `fills_window` see `replay_session`.
    """
    watching: list[_WatchedPlayer] = []

    def build_watched(track: Recording, size: int) -> Player:
        watching.append(_WatchedPlayer(build_player(track, size), {m.request: m.facts for m in moments}))
        return watching[0]

    replay = replay_session(recording, method, build_watched, window=window, prices=prices, fills_window=fills_window)
    return SeenRun(replay, watching[0].present, sum(len(m.facts) for m in moments))


class _WatchedPlayer:
    """Passes requests on to a player, and looks at those of the moments."""

    def __init__(self, player: Player, facts: Mapping[int, Sequence[NeededFact]]) -> None:
        self._player, self._facts = player, facts
        self._count = self.present = 0

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """See `Player.prepare_request`."""
        sent = self._player.prepare_request(new_indexes)
        if facts := self._facts.get(self._count):
            read = getattr(self._player, "read_view", None)
            text = None if read is None else read()
            self.present += sum(text is None or has_identifier(text, fact.text) for fact in facts)
        self._count += 1
        return sent

    def record_usage(self, prompt_tokens: int) -> None:
        """See `Player.record_usage`."""
        self._player.record_usage(prompt_tokens)


class SizedPlayer(PolicyPlayer):
    """Runs `tenfold` with other settings, such as `thrift`. With `has_model` a stand-in for a model writes."""

    def __init__(
        self, recording: Recording, window: int, *, settings: Mapping[str, Any] | None = None, has_model: bool = False
    ) -> None:
        super().__init__(recording, window, policy="tenfold", model=StandInModel(get_counter()) if has_model else None)
        self._session.compactor.use_policy(build_policy("tenfold", get_counter(), **(settings or {})))

    def list_messages(self) -> list[Message]:
        """Lists the messages of the last request."""
        return self._session.view.get_messages()

    def read_view(self) -> str:
        """Reads what the last request showed."""
        messages = self.list_messages()
        return "\n".join(f"{get_text(m)}\n" + "\n".join(c.arguments for c in get_tool_calls(m)) for m in messages)
