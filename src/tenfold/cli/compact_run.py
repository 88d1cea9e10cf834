"""One run of `tenfold compact`: its arguments, and how it reads, opens and compacts sessions by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from tenfold.cli.console import ExitCode, print_note
from tenfold.cli.source_files import SourceFile
from tenfold.cli.store_access import open_session
from tenfold.cli.summary_models import SummaryModels
from tenfold.config.settings import Config
from tenfold.engine.call import Call
from tenfold.errors import BadInput, UnknownFormat, UsageError
from tenfold.formats import ParsedSession, read_file
from tenfold.formats.importer import import_sessions
from tenfold.meter.counters import CharacterCounter, choose_counter
from tenfold.record.ask import Outcome
from tenfold.record.entry import get_message
from tenfold.session import Session
from tenfold.store.base import DEFAULT_NAMESPACE, SessionRow, Store
from tenfold.trigger.limits import parse_target
from tenfold.wire import WIRES


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
            parse_target(self.to, 1_000_000, name="--to")
        self.config.build_policy(CharacterCounter(), self.policy)
        if self.preview and self.out is not None:
            raise UsageError("--preview changes nothing, so --out would have nothing to write: give one of the two")

    def build_call(self, session: Session) -> Call:
        """Builds the call that `--to` and `--window` make. Raises `UsageError` if neither size is known."""
        call = session.compactor.validate_call(session.build_call(to=self.to, window=self.window))
        return msgspec.structs.replace(call, recall=self.recall)


FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Compact the originals anew, and not what an earlier compaction left.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Accept a target below 5% of the session, or below what must stay.")
]
LEAST_SHARE = 0.05
"""The share of a session below which a target is taken for a slip: `--to 10` for `--to 10%`."""


def check_target(session: Session, to: str, *, is_accepted: bool) -> None:
    """Checks that `--to` is no slip, and that it can be reached. Raises `UsageError` with the arithmetic if not.

    A target below a twentieth of the session is taken for a slip. One below what must stay cannot be reached.

    `is_accepted` says that the user has confirmed such a target.
    """
    tokens = session.count_uncompacted()
    target = parse_target(to, tokens, name="--to")
    if is_accepted:
        return
    if target >= int(tokens * LEAST_SHARE):
        _check_least(session, to, target)
        return
    meant = f"--to {to}% if a share was meant, " if to.isdigit() and int(to) <= 100 else ""
    raise UsageError(
        f"--to {to} would leave {target:,} of {tokens:,} tokens ({target / tokens:.2%}), less than {LEAST_SHARE:.0%}: "
        f"give {meant}--to {int(tokens * LEAST_SHARE)} or more, or --yes to do it all the same"
    )


def _check_least(session: Session, to: str, target: int) -> None:
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
    """Reads and compacts sessions as the arguments say. `exit_code` is that of the worst thing that happened."""

    def __init__(self, arguments: CompactArguments) -> None:
        self.arguments = arguments
        self.exit_code = ExitCode.OK

    def read_sources(self, sources: Sequence[SourceFile]) -> Iterator[tuple[SourceFile, list[ParsedSession]]]:
        """Yields each file with its sessions. A damaged file among several has none, and a note says why."""
        for source in sources:
            try:
                recorded = self._read_source(source)
            except BadInput as exc:
                if len(sources) == 1:
                    raise
                print_note(f"tenfold: {exc}", style="red")
                self.exit_code = max(self.exit_code, ExitCode.BAD_INPUT)
                recorded = []
            yield source, recorded

    def _read_source(self, source: SourceFile) -> list[ParsedSession]:
        """Reads the sessions of a file. A file in a folder that is no session file gives none, with a note."""
        arguments = self.arguments
        try:
            recorded = read_file(source.path, format=arguments.format, skip_damaged=arguments.skip_damaged)
        except UnknownFormat as exc:
            if source.is_named:
                raise
            print_note(f"skipped: {exc}")
            return []
        for problem in [problem for each in recorded for problem in each.problems]:
            print_note(f"{source.path}: {problem}")
        if not any(get_message(entry) is not None for each in recorded for entry in each.entries):
            problems = sum(len(each.problems) for each in recorded)
            if problems:
                raise BadInput(
                    f"{source.path}: nothing in it could be read, for the {problems} reasons above; export or copy it "
                    "again"
                )
            print_note(f"{source.path}: it holds no message")
        return recorded

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
            if session.policy.restores_recorded:
                _restore_compaction(session, rows[id_])
            yield rows[id_], session

    def prepare_session(self, session: Session) -> None:
        """Checks the target for a session, and takes its earlier compactions back if it is to be compacted anew.

        Raises `UsageError` for a target that is a slip. Nothing has changed then.
        """
        arguments = self.arguments
        if arguments.to is not None:
            check_target(session, arguments.to, is_accepted=arguments.is_small_accepted)
        if arguments.is_fresh:
            drop_compactions(session)

    def compact_session(self, session: Session) -> Outcome:
        """Compacts a session. The Outcome also lists what providers would refuse in its view."""
        outcome = session.compact(self.arguments.build_call(session))
        if outcome.status == "failed":
            self.exit_code = max(self.exit_code, ExitCode.FAILED)
        violations = tuple(f"{wire}: {sentence}" for wire in WIRES for sentence in session.find_violations(wire))
        return msgspec.structs.replace(outcome, violations=violations)


def _restore_compaction(session: Session, row: SessionRow) -> None:
    """Puts the newest compaction that the file records in force, if that is not done yet, and says so."""
    from tenfold.designs.tail.recorded_compaction import restore_compaction  # noqa: PLC0415 - for this policy only

    outcome = restore_compaction(session)
    if outcome is None:
        return
    tool, sizes = row.info.format, f"{outcome.tokens_before:,} -> {outcome.tokens_after:,} tokens"
    said = f"is in force: {sizes}" if outcome.status == "compacted" else f"is not in force: {outcome.reason}"
    print_note(f"{row.info.file}: the compaction that {tool} recorded {said}")
