"""The facts that code, not a model, finds in messages: a type for each kind. A Block holds those that it changes."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

FactKind = Literal[
    "request", "rule", "correction", "remark", "claimed", "file_read", "file_modified", "file_created", "file_deleted",
    "file_renamed", "command", "error", "todo",
]  # fmt: skip
"""What reports call a fact."""
MUST_KEEP: frozenset[FactKind] = frozenset(
    (
        "request", "rule", "correction", "remark", "claimed", "error", "todo",
        "file_modified", "file_created", "file_deleted", "file_renamed",
    )
)  # fmt: skip
"""The kinds of facts that every compaction must keep in view. Settled facts are exempt: see `FactBase.live`."""
CHANGE_KINDS: frozenset[FactKind] = frozenset({"file_modified", "file_created", "file_deleted", "file_renamed"})
"""The kinds of a `ChangedFile`."""


class FactBase(Struct, frozen=True, omit_defaults=True, rename={"position": "at"}):
    """What all facts have.

    `text` is the fact as it is shown, and `position` that of the entry it came from. `live` is False for settled facts
    (a mended error, an earlier request), which need not be kept. A fact read from a summary has the summary's position
    and a `line` from 1; `line` is 0 for a fact read from a message.
    """

    text: str
    position: int
    live: bool = True
    line: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the later the fact was last seen, the larger."""
        return self.position, self.line

    @property
    def label(self) -> str:
        """The fact on its own: its text, and of a renamed file both paths."""
        return self.text


class Request(FactBase, frozen=True, tag="request"):
    """A message of the user. It is live as long as it is the current request.

    `number` is that of the message where a summary has told it, -1 if it is `position` or nobody knows it.
    `is_acknowledgement` says that it asks for nothing new: the request before it stays the current one.
    """

    kind: ClassVar[FactKind] = "request"
    number: int = -1
    is_acknowledgement: bool = False


RuleEffect = Literal["gives", "permits", "revokes", "replaces", "states", "quotes"]
RuleEnd = Literal["", "revoked", "superseded", "dropped"]


class Rule(FactBase, frozen=True, tag="rule"):
    """A sentence of the user about what holds from then on.

    Its `effect`: it gives a rule, permits something, revokes an earlier rule, or replaces one. It states an amount, as
    in "The limit is now 300 euros.", which may replace that of a rule. Or a model quotes it as a rule: then it ends and
    changes no other. `end` says why it holds no more: the user revoked it, gave another in its place, or dropped it by
    command. "" if it holds.
    """

    kind: ClassVar[FactKind] = "rule"
    effect: RuleEffect = "gives"
    end: RuleEnd = ""


class Correction(FactBase, frozen=True, tag="correction"):
    """What the user says was done wrong."""

    kind: ClassVar[FactKind] = "correction"


class Remark(FactBase, frozen=True, tag="remark"):
    """Words of the user in a language without cues."""

    kind: ClassVar[FactKind] = "remark"


class Claim(FactBase, frozen=True, tag="claim"):
    """What a summary of unknown source says of the user and of plans. `about` is the kind that it claims to be."""

    kind: ClassVar[FactKind] = "claimed"
    about: str = ""


class FileRead(FactBase, frozen=True, tag="file_read"):
    """A file that was read. `text` is its path."""

    kind: ClassVar[FactKind] = "file_read"


Change = Literal["modified", "created", "deleted", "renamed"]


class ChangedFile(FactBase, frozen=True, tag="file_change"):
    """The state of a file that was changed. `text` is its path now, `old_path` that before it was renamed.

    `content` says what was changed in it, one line for each change, the newest last. `is_edited` says that a renamed
    file was changed besides, and `is_unconfirmed` that no result confirmed the change. A change that was discarded is
    not live; its path may be a folder, or "." for everything.
    """

    change: Change = "modified"
    old_path: str = ""
    content: str = ""
    is_edited: bool = False
    is_unconfirmed: bool = False

    @property
    def kind(self) -> FactKind:
        """What reports call it."""
        match self.change:
            case "modified":
                return "file_modified"
            case "created":
                return "file_created"
            case "deleted":
                return "file_deleted"
            case "renamed":
                return "file_renamed"

    @property
    def label(self) -> str:
        """See `FactBase.label`."""
        return f"{self.old_path} -> {self.text}" if self.old_path else self.text


class CommandRun(FactBase, frozen=True, tag="command"):
    """The last run of a command, or of another tool with these arguments, and its `outcome`: see `ToolOutcome.note`.

    `text` is the command as it is shown, `command` that by which two runs are of the same command.
    """

    kind: ClassVar[FactKind] = "command"
    command: str = ""
    outcome: str = ""


class Failure(FactBase, frozen=True, tag="failure"):
    """An error line. It is live as long as nothing shows that it is over.

    `source` is the command, tool or file that failed, "user" if the user pasted it.
    """

    kind: ClassVar[FactKind] = "error"
    source: str = ""


class TodoList(FactBase, frozen=True, tag="plan"):
    """A to-do list that the agent gave to a tool, one line an item. `name` tells the lists of a session apart."""

    kind: ClassVar[FactKind] = "todo"
    name: str = "todo"


class BlankFact(FactBase, frozen=True, tag="blank"):
    """Keeps the place of a fact that a purge has removed, or that only earlier versions knew."""


Fact = Request | Rule | Correction | Remark | Claim | FileRead | ChangedFile | CommandRun | Failure | TodoList
StoredFact = Fact | BlankFact
