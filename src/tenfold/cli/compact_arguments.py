"""The arguments of one run of `tenfold compact`, and the compaction call that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from tenfold.cli.summary_models import SummaryModels
from tenfold.config.settings import Config
from tenfold.engine.compact import Call
from tenfold.errors import UsageError
from tenfold.meter.counters import CharacterCounter
from tenfold.session import Session


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
    preview: bool
    json: bool

    def check(self) -> None:
        """Checks the arguments before anything is read. Raises `UsageError` for invalid ones."""
        if self.to is not None:
            parse_target(self.to, 1_000_000)
        self.config.build_policy(CharacterCounter(), self.policy)
        if self.preview and self.out is not None:
            raise UsageError("--preview changes nothing, so --out would have nothing to write: give one of the two")

    def build_call(self, session: Session) -> Call:
        """Builds the call that `--to` and `--window` make. Raises `UsageError` if neither size is known."""
        target = parse_target(self.to, session.count_uncompacted()) if self.to is not None else None
        call = session.validate_call(session.build_call(to=target, window=self.window))
        return msgspec.structs.replace(call, demand="check" if target is None else "manual", recall=self.recall)


def parse_target(to: str, tokens: int) -> int:
    """Parses `--to` as tokens; a share is a share of `tokens`. Raises `UsageError` if it is neither."""
    try:
        share = float(to[:-1]) / 100 if to.endswith("%") else None
        target = int(tokens * share) if share is not None else int(to.replace("_", "").replace(",", ""))
    except (ValueError, OverflowError):
        share, target = None, 0
    if target < 1 or (share is not None and share > 1):
        raise UsageError(f"--to {to!r} is not a size: give tokens, as in --to 20000, or a share, as in --to 10%")
    return target
