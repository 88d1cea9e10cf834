"""What a run costs, and what its agent still saw: a replay's bill with the recall of the same run beside it.

A view at the end of a run says little of the run. So at five moments of it, spread evenly over its requests, code looks
up what the rest of the session needed of what came before, and whether the request that was then sent still showed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.shell import is_test_run
from tenfold.compaction.facts.todos import count_items
from tenfold.compaction.facts.tool_calls import interpret_call
from tenfold.compaction.facts.tool_results import is_success, judge_result
from tenfold.compaction.plan.draft import Draft, Goal, is_summary_unit
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages import SummarizePrefixStage
from tenfold.compaction.plan.stages.condense import build_summary, condense_step
from tenfold.config.settings import build_policy
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.core.record.token_reading import NO_TOKENS, Counted
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


def see_run(
    recording: Recording,
    moments: Sequence[Moment],
    method: str,
    build_player: PlayerFactory,
    *,
    window: int,
    prices: Sequence[Prices],
) -> SeenRun:
    """Plays a session with a policy and looks at its requests. A player without `read_view` shows everything."""
    watching: list[_WatchedPlayer] = []

    def build_watched(track: Recording, size: int) -> Player:
        watching.append(_WatchedPlayer(build_player(track, size), {m.request: m.facts for m in moments}))
        return watching[0]

    replay = replay_session(recording, method, build_watched, window=window, prices=prices)
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


# -- experiments with the depth and the moment of a compaction ---------------------------------------------------------


class SizedPlayer(PolicyPlayer):
    """Runs `tenfold` with other settings, such as `thrift`. With `stage`, that takes the place of its summary stage."""

    def __init__(
        self,
        recording: Recording,
        window: int,
        *,
        settings: Mapping[str, Any] | None = None,
        stage: SummarizePrefixStage | None = None,
        has_model: bool = False,
    ) -> None:
        super().__init__(recording, window, policy="tenfold", model=StandInModel(get_counter()) if has_model else None)
        policy = build_policy("tenfold", get_counter(), **(settings or {}))
        if stage is not None:
            policy = replace(
                policy, stages=tuple(stage if isinstance(s, SummarizePrefixStage) else s for s in policy.stages)
            )
        self._session.compactor.use_policy(policy)

    def read_view(self) -> str:
        """Reads what the last request showed."""
        messages = self._session.view.get_messages()
        return "\n".join(f"{get_text(m)}\n" + "\n".join(c.arguments for c in get_tool_calls(m)) for m in messages)


class FrozenSummaries(SummarizePrefixStage, frozen=True):
    """Leaves earlier summaries as they are, byte for byte, and puts a new one behind them.

    Once they take more than half of the target, all of them become one.
    """

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """See `Stage.apply`."""
        first, frozen = draft.floor_end, NO_TOKENS
        for piece in draft.pieces[first:]:
            is_summary = piece.units[0].block_part is not None and is_summary_unit(draft.view, piece.units[0])
            if piece.get_visible_messages() and not is_summary:
                break
            first, frozen = first + 1, frozen + piece.tokens
        if not frozen or frozen > goal.target // 2:
            return super().apply(draft, goal)
        budget = Counted(max(goal.summary_overhead, goal.summary_budget - frozen))
        kept = draft.measure_kept(goal.user_budget)
        size = TailSize(budget=goal.target - draft.count_fixed(kept) - frozen - budget)
        tail = find_tail(draft, size, first, kept=kept, shorten=lambda piece, _: condense_step(draft, piece, goal))
        covered = tail.draft.pieces[first : tail.start]
        if not any(piece.units[0].visible_messages for piece in covered):
            return tail.draft
        return tail.draft.with_piece(first, build_summary(draft, covered, kept, budget), until=tail.start)


class FrozenPrefixPlayer(SizedPlayer):
    """Keeps the beginning of the conversation as it was, so that the cache still holds it after a compaction."""

    def __init__(self, recording: Recording, window: int, *, share: float) -> None:
        super().__init__(recording, window)
        self._room, self._is_pinned = int(share * window), False

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """Pins what is kept, once there is enough of it."""
        if not self._is_pinned and sum(self._recording.tokens[: new_indexes.start]) > self._room:
            self._is_pinned, room = True, self._room
            path = self._session.view.path
            for shown in list(self._session.view.get_visible_messages()):
                room -= self._recording.tokens[shown.position]
                if room < 0:
                    break
                self._session.pin(path.get_entry(shown.position).id)
        return super().prepare_request(new_indexes)


class PhasePlayer(SizedPlayer):
    """Compacts where a phase of the work ends, from half of the window on: a commit, a passed test run, a plan item."""

    def __init__(self, recording: Recording, window: int, *, share: float = 0.5) -> None:
        super().__init__(recording, window)
        self._least, self._calls, self._done = int(share * window), dict[str, ToolCall](), 0

    def _compact_if_due(self, new_indexes: range) -> ModelCost:
        """Compacts early too, if a phase has just ended."""
        session, ends = self._session, [self._has_ended_phase(index) for index in new_indexes]
        call = session.compactor.build_call(window=self._window, floor=self._recording.prefix)
        if any(ends) and session.take_reading(window=self._window, floor=call.floor).tokens >= self._least:
            return session.compact(replace(call, demand="manual")).spent
        return super()._compact_if_due(new_indexes)

    def _has_ended_phase(self, index: int) -> bool:
        message = self._recording.messages[index]
        result = get_tool_result(message)
        call = self._calls.pop(result.call_id, None) if result is not None else None
        before = self._recording.messages[index - 1] if index else message
        self._calls |= {each.id: each for each in (*get_tool_calls(message), *get_tool_calls(before))}
        if result is None or call is None:
            return False
        action = interpret_call(call)
        if action.verb == "todo":
            done = int((count_items(action.arguments).split() or ["0", "items,", "0"])[2])
            more, self._done = done > self._done, done
            return more
        is_end = action.verb == "shell" and (is_test_run(action.source) or "git commit" in action.source)
        return is_end and is_success(judge_result(action, get_text(message), is_error=False, position=index).note)
