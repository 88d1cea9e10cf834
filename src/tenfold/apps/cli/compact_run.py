"""One run of `tenfold compact`: its arguments, and how it reads, opens and compacts sessions by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from tenfold.apps.cli.console import print_note
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.cli.store_access import open_session
from tenfold.apps.cli.summary_models import SummaryModels
from tenfold.compaction.engine.call import Call
from tenfold.compaction.trigger.sizes import convert_size, parse_size
from tenfold.config.settings import Config
from tenfold.core.meter.counters import CharacterCounter, choose_counter
from tenfold.core.record.ask import Outcome
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.formats import ParsedSession
from tenfold.formats.importer import import_sessions
from tenfold.session import Session
from tenfold.store.base import DEFAULT_NAMESPACE, SessionRow, Store


class CompactArguments(msgspec.Struct, frozen=True):
    """The arguments of one run of the command, apart from its files."""

    to: str | None
    window: int | None
    policy: str
    config: Config
    models: SummaryModels
    recall: Literal["none", "tool", "cli"]
    format: str | None
    skip_damaged: bool
    out: Path | None
    force: bool
    preview: bool
    json: bool
    namespace: str = DEFAULT_NAMESPACE
    is_fresh: bool = False
    is_small_accepted: bool = False

    def with_care(self, *, is_fresh: bool, is_small_accepted: bool) -> CompactArguments:
        """Returns the arguments with how earlier compactions and small targets are taken: `--fresh`, `--yes`."""
        return msgspec.structs.replace(self, is_fresh=is_fresh, is_small_accepted=is_small_accepted)

    def check(self) -> None:
        """Checks the arguments before anything is read. Raises `UsageError` for invalid ones."""
        if self.to is not None:
            size = parse_size("--to", self.to)
            if isinstance(size, int) and size <= MOST_LIKELY_SHARE and not self.is_small_accepted:
                raise UsageError(
                    f"--to {self.to} asks for {size} tokens: give --to {self.to}% if a share was meant, or --yes to "
                    "do it all the same"
                )
        self.config.build_policy(CharacterCounter(), self.policy)
        if self.preview and self.out is not None:
            raise UsageError("--preview changes nothing, so --out would have nothing to write: give one of the two")

    def build_call(self, session: Session) -> Call:
        """Builds the call that `--to` and `--window` make. Raises `UsageError` if neither size is known."""
        call = session.compactor.validate_call(session.compactor.build_call(to=self.to, window=self.window))
        return msgspec.structs.replace(call, recall=self.recall)


FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Compact the originals anew, and not what an earlier compaction left.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Accept a target of 100 tokens or less, or one below what must stay.")
]
_EARLIER = "an earlier compaction is in force, and its view is what is compacted; --fresh begins with the originals"
MOST_LIKELY_SHARE = 100
"""A bare number up to this is taken for a share without its sign: `--to 10` for `--to 10%`."""


def _check_least(session: Session, to: str) -> None:
    """Checks that `--to` can be reached. Raises `UsageError` with the arithmetic if what must stay is larger."""
    target = convert_size(parse_size("--to", to), session.conversation.count_uncompacted())
    decision, _ = session.preview(to=target)
    if decision.should_act and decision.target_missed:
        raise UsageError(
            f"--to {to} asks for {target:,} tokens, and what must stay takes {decision.target:,} (the newest exchange, "
            f"what is pinned, rules, a summary): give --to {decision.target} or more, or --yes to come as close as that"
        )


def drop_compactions(session: Session) -> int:
    """Takes every compaction back, so that the next one begins with the originals. Returns how many there were."""
    count = 0
    while session.view.state.live_blocks:
        session.undo()
        count += 1
    return count


class CompactRun:
    """Opens and compacts sessions as the arguments say. `exit_code` is that of the worst thing that happened."""

    def __init__(self, arguments: CompactArguments) -> None:
        self.arguments = arguments
        self.exit_code = ExitCode.OK

    def open_sessions(
        self, store: Store, recorded: Sequence[ParsedSession], policy: str
    ) -> Iterator[tuple[SessionRow, Session]]:
        """Imports the sessions of one file into the store, and opens them one after the other with this policy."""
        config, models, namespace = self.arguments.config, self.arguments.models, self.arguments.namespace
        recorded_model = next((r.info.model for r in recorded if r.info.model), "")
        agent_model = models.choose_agent_model(recorded_model, config.get_common(policy).models)
        ids = import_sessions(recorded, store, namespace, choose_counter(agent_model or None).counter)
        rows = {row.info.id: row for row in store.list_sessions(namespace)}
        for id_ in ids:
            session = open_session(store, rows[id_], namespace=namespace, config=config, policy=policy, models=models)
            _restore_compaction(session, rows[id_])
            yield rows[id_], session

    def prepare_session(self, session: Session) -> None:
        """Checks the target for a session, and takes its earlier compactions back if it is to be compacted anew.

        Raises `UsageError` for a target that cannot be reached. Nothing has changed then.
        """
        arguments = self.arguments
        if arguments.to is not None and not arguments.is_small_accepted:
            _check_least(session, arguments.to)
        if arguments.is_fresh:
            drop_compactions(session)

    def build_refused_outcome(self, session: Session, refusal: UsageError) -> Outcome:
        """Builds the Outcome of a session that stays as it is, as one of several that are compacted in one run."""
        tokens, call = session.conversation.count_uncompacted(), self.arguments.build_call(session)
        count = sum(1 for _ in session.view.get_visible_messages())
        sizes = tokens, tokens, call.to or 0
        return Outcome("nothing", str(refusal), *sizes, messages_before=count, messages_after=count)

    def compact_session(self, session: Session) -> Outcome:
        """Compacts a session. The Outcome also lists what providers would refuse in its view."""
        outcome = session.compact(self.arguments.build_call(session))
        if outcome.status == "failed":
            self.exit_code = max(self.exit_code, ExitCode.FAILED)
        violations = tuple(
            f"{wire}: {sentence}" for wire in WIRES for sentence in session.conversation.find_violations(wire)
        )
        is_kept = outcome.status == "nothing" and session.view.state.live_blocks
        notes = (*outcome.notes, _EARLIER) if is_kept else outcome.notes
        return msgspec.structs.replace(outcome, violations=violations, notes=notes)


def _restore_compaction(session: Session, row: SessionRow) -> None:
    """Lets the policy put the newest compaction that the file records in force, and says so."""
    restorer = session.policy.restorer
    outcome = restorer(session) if restorer is not None else None
    if outcome is None:
        return
    tool, sizes = row.info.format, f"{outcome.tokens_before:,} -> {outcome.tokens_after:,} tokens"
    said = f"is in force: {sizes}" if outcome.status == "compacted" else f"is not in force: {outcome.reason}"
    print_note(f"{row.info.file}: the compaction that {tool} recorded {said}")
