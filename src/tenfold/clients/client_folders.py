"""Where each client keeps its sessions, by its own environment variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct


class ClientFolders(Struct, frozen=True):
    """The folders of the clients on a machine: what the variables in `environment` say, else folders in `home`."""

    environment: Mapping[str, str]
    home: Path

    def _find(self, variable: str, *usual: str) -> Path:
        named = self.environment.get(variable, "").strip()
        return self._expand(named) if named else self.home.joinpath(*usual)

    def _expand(self, named: str) -> Path:
        return self.home / named[1:].lstrip("/\\") if named.startswith("~") else Path(named)

    def find_claude_code(self) -> Iterator[Path]:
        """Yields the session files of Claude Code ($CLAUDE_CONFIG_DIR, else ~/.claude), subagents left out."""
        folder = self._find("CLAUDE_CONFIG_DIR", ".claude") / "projects"
        yield from (path for path in folder.glob("*/*.jsonl") if not path.name.startswith("agent-"))

    def find_codex(self) -> Iterator[Path]:
        """Yields the rollouts of Codex ($CODEX_HOME, else ~/.codex)."""
        yield from (self._find("CODEX_HOME", ".codex") / "sessions").glob("**/rollout-*.jsonl")

    def find_pi(self) -> Iterator[Path]:
        """Yields the session files of pi ($PI_CODING_AGENT_SESSION_DIR, else the folder of $PI_CODING_AGENT_DIR)."""
        if named := self.environment.get("PI_CODING_AGENT_SESSION_DIR", "").strip():
            yield from self._expand(named).glob("**/*.jsonl")
        else:
            yield from (self._find("PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions").glob("*/*.jsonl")

    def find_gemini_cli(self) -> Iterator[Path]:
        """Yields the session files of gemini-cli (.gemini in $GEMINI_CLI_HOME, else in your home folder)."""
        folder = self._find("GEMINI_CLI_HOME") / ".gemini" / "tmp"
        yield from (path for path in folder.glob("*/chats/session-*") if path.suffix in (".json", ".jsonl"))

    def find_cline(self) -> Iterator[Path]:
        """Yields the message files of cline ($CLINE_SESSION_DATA_DIR, $CLINE_DATA_DIR, or data/ in $CLINE_DIR)."""
        if named := self.environment.get("CLINE_SESSION_DATA_DIR", "").strip():
            folder = self._expand(named)
        elif named := self.environment.get("CLINE_DATA_DIR", "").strip():
            folder = self._expand(named) / "sessions"
        else:
            folder = self._find("CLINE_DIR", ".cline") / "data" / "sessions"
        yield from folder.glob("*/*.messages.json")

    def find_opencode(self) -> Iterator[Path]:
        """Yields the databases of opencode ($OPENCODE_DB, else those in opencode/ of $XDG_DATA_HOME)."""
        folder = self._find("XDG_DATA_HOME", ".local", "share") / "opencode"
        if named := self.environment.get("OPENCODE_DB", "").strip():
            yield from (path for path in [folder / named] if path.is_file())
        else:
            yield from folder.glob("opencode*.db")
