"""The table `[tenfold.jobs]`: how many jobs run at a time, and what runs by the clock.

[tenfold.jobs]
at_once = 4                  # jobs that one worker does at a time

[tenfold.jobs.retention]
schedule = "0 3 * * *"       # at three each night, UTC; without it, nothing is deleted
older_than = "90d"
keep_under = "20GB"          # of each namespace

[tenfold.jobs.retention.namespaces.acme]
older_than = "30d"           # takes the place of what stands above
"""

from __future__ import annotations

import msgspec
from croniter import croniter
from msgspec import Struct

from tenfold.config.settings import Config
from tenfold.errors import UsageError
from tenfold.store.retention import RetentionRule, parse_age, parse_size


def _check_schedule(name: str, cron: str) -> None:
    if cron and not croniter.is_valid(cron):
        raise UsageError(
            f"the setting {name} of jobs is {cron!r}, which is no cron expression: write one as in '0 3 * * *'"
        )


class NamespaceRetention(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a namespace. None takes what is said for all, and "" sets no limit."""

    older_than: str | None = None
    keep_under: str | None = None
    pinned: bool | None = None


class RetentionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept: see `tenfold retention`. `schedule` is a cron expression in UTC, "" for never.

    With `dry_run` the scheduled job only says what it would delete. With `pinned` it deletes sessions with pinned
    messages too. `namespaces` says otherwise for some of them.
    """

    schedule: str = ""
    older_than: str = ""
    keep_under: str = ""
    pinned: bool = False
    dry_run: bool = False
    namespaces: dict[str, NamespaceRetention] = {}

    def __post_init__(self) -> None:
        """Raises `UsageError` for what is no age, no size, or a schedule without a limit."""
        for name in ("", *self.namespaces):
            self.get_rule(name)
        _check_schedule("retention.schedule", self.schedule)
        if self.schedule and not (self.older_than or self.keep_under or self.namespaces):
            raise UsageError("retention has a schedule and nothing to delete: set older_than, keep_under, or both")

    def get_rule(self, namespace: str) -> RetentionRule:
        """Returns the rule for a namespace."""
        own = self.namespaces.get(namespace, NamespaceRetention())
        older_than = self.older_than if own.older_than is None else own.older_than
        keep_under = self.keep_under if own.keep_under is None else own.keep_under
        return RetentionRule(
            parse_age(older_than) if older_than else None, parse_size(keep_under) if keep_under else None
        )

    def can_delete_pinned(self, namespace: str) -> bool:
        """Tells whether sessions of a namespace with pinned messages are deleted as well."""
        own = self.namespaces.get(namespace, NamespaceRetention()).pinned
        return self.pinned if own is None else own


class JobSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of jobs.

    One worker does `at_once` jobs at a time, and no more than `at_once_per_namespace` of one tenant, so that none waits
    for another's. At most `max_waiting` jobs of a namespace wait; more are refused. `index` is a cron expression in
    UTC. What is known of a job is deleted `keep_days` after it ended.
    """

    at_once: int = 4
    at_once_per_namespace: int = 2
    max_waiting: int = 1_000
    index: str = "*/5 * * * *"
    keep_days: int = 7
    retention: RetentionSettings = RetentionSettings()

    def __post_init__(self) -> None:
        """Raises `UsageError` for settings that cannot work."""
        for name in ("at_once", "at_once_per_namespace", "max_waiting", "keep_days"):
            if getattr(self, name) < 1:
                raise UsageError(f"the setting {name} of jobs is {getattr(self, name)}: it has to be at least 1")
        _check_schedule("index", self.index)


def load_job_settings(config: Config) -> JobSettings:
    """Reads the table. Raises `UsageError` for a setting that is unknown or wrong."""
    try:
        return msgspec.convert(config.jobs, JobSettings)
    except (msgspec.ValidationError, UsageError) as exc:
        raise UsageError(f"[tenfold.jobs] in {config.where}: {exc}") from exc
