"""What the user has allowed for the rest of the session: a tool, and a pattern for what it may be used on.

A rule that allows `pytest *` must not allow `pytest x; rm -r build`. So a pattern is never matched against a command
that the shell may take for several: such a command is allowed only if exactly that command was allowed.
"""

from __future__ import annotations

import glob
import re
from fnmatch import fnmatchcase

from msgspec import Struct

from tenfold.apps.agent.coding_tools import Action
from tenfold.core.text.hidden import is_hidden
from tenfold.errors import UsageError

_SHELL_SYNTAX = re.compile(r"[\n\r;&|<>`$(){}\\%^!]")
"""Characters by which a shell, of POSIX or of Windows, may do more than run one program with its arguments."""


class AllowRule(Struct, frozen=True):
    """Allows a tool for what matches a pattern: a path in the folder, or a command. `*` stands for any text."""

    tool: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.tool} {self.pattern}"

    def is_covering(self, action: Action) -> bool:
        """Returns whether the action is allowed without a question."""
        if action.tool != self.tool:
            return False
        if self.pattern == escape_pattern(action.subject):
            return True
        if action.kind == "command" and _SHELL_SYNTAX.search(action.subject):
            return False
        return fnmatchcase(action.subject, self.pattern)


def escape_pattern(subject: str) -> str:
    """Returns the pattern that matches this path or command, and no other."""
    return glob.escape(subject)


def is_editable(action: Action) -> bool:
    """Returns whether the pattern of an action fits a line that a person edits: all of its characters show there."""
    return not any(is_hidden(char) for char in action.subject)


def build_rule(action: Action, pattern: str) -> AllowRule:
    """Builds the rule for a pattern that the user wrote when asked about the action.

    Raises `UsageError` if the rule would not even allow this action.
    """
    rule = AllowRule(action.tool, pattern.strip())
    if rule.is_covering(action):
        return rule
    if action.kind == "command" and _SHELL_SYNTAX.search(action.subject):
        raise UsageError("the shell may take this command for several, so only exactly this command can be allowed")
    raise UsageError(f"this pattern does not match what is asked for: {action.subject}")
