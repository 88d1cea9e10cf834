"""The laws for the preset `blocks`: generated histories, and every recorded session."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages
from tenfold.designs.blocks import get_loop_records
from tenfold.designs.blocks.policy import blocks
from tenfold.session.drive import Answerer
from tests.designs.blocks.making import COUNTER, count_view_tokens, find_violations
from tests.laws import checks, conversations
from tests.laws.conversations import Broken, Echo
from tests.laws.nearby import WIRES
from tests.laws.strategies import ENGINE, Log

SMALL = partial(
    blocks, COUNTER, keep_first_turns=1, keep_recent_turns=3, tool_output_max_lines=4, max_summary_tokens=200
)
ECHO = with_prompts(SummarySettings(models=("echo",)))


def build_policy(how: str) -> Policy:
    """The preset offline, with a model, over a token budget, and for plain lists."""
    match how:
        case "asks":
            return SMALL(summary=ECHO)
        case "budget":
            return SMALL(compaction_scope="token_budget")
        case "list":
            made = blocks(COUNTER, keep_first=1, keep_recent=3, tool_output_max_lines=4)
            return made.with_list_stages()
        case _:
            return SMALL()


@ENGINE
@given(
    log=conversations.long_logs(),
    more=conversations.long_logs(least=3, most=10),
    percent=st.integers(5, 90),
    how=st.sampled_from(("offline", "asks", "broken", "budget", "list")),
)
def test_two_compactions_of_any_history_keep_every_law(log: Log, more: Log, percent: int, how: str) -> None:
    """The original loses originals at the second one, and parts calls from results."""
    using = build_policy("asks" if how == "broken" else how)
    session = conversations.open_session(log, using, Answerer(Broken() if how == "broken" else Echo()))
    for extra in (more, ()):
        before, target = count_view_tokens(session), max(1, count_view_tokens(session) * percent // 100)
        outcome = session.compact(to=target)
        assert outcome.status in ("compacted", "nothing")
        if outcome.status == "compacted":
            assert outcome.tokens_after == count_view_tokens(session) < before
            assert outcome.tokens_after <= outcome.target or outcome.target_missed
            assert session.compact(to=target).status == "nothing"
        for wire in WIRES:
            assert check_messages(session.view.get_messages(), wire) == []
        session.append(*conversations.extract_messages(extra))
    path = tuple(session.view.path.get_entries(0, session.view.length - 1))
    checks.assert_agrees_with_oracle(View, path)
    checks.assert_positions_tiled(View, path)
    checks.assert_originals_reachable(View, path)
    checks.assert_opens_from_snapshots(View, path)
    checks.assert_blocks_undoable(View, path)
    assert find_violations(get_loop_records(session)) == []
