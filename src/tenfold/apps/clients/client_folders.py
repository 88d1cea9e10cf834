"""Where each client keeps its sessions, by its own environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from tenfold.formats.cline import TASK_FILE

_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
"""VS Code and editors made from it, by the names of their folders."""
_SERVERS = (".vscode-server", ".vscode-server-insiders", ".vscodium-server", ".cursor-server", ".windsurf-server")
"""Where the same editors keep what belongs to a machine that they are connected to."""
_EXTENSION = ("User", "globalStorage", "saoudrizwan.claude-dev")


class ClientFolders(Struct, frozen=True):
    """The folders of the clients on a machine: what the variables in `environment` say, else folders in `home`.

    What may not be read is left out, and `report_problem` is told of it.
    """

    environment: Mapping[str, str]
    home: Path
    report_problem: Callable[[str], None]

    def _list(self, folder: Path, pattern: str) -> Iterator[Path]:
        try:
            os.scandir(folder).close()
            yield from folder.glob(pattern)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as exc:
            self.report_problem(f"{folder} is left out ({exc.strerror or exc}): check its permissions")

    def _find(self, variable: str, *usual: str) -> Path:
        named = self.environment.get(variable, "").strip()
        return self._expand(named) if named else self.home.joinpath(*usual)

    def _expand(self, named: str) -> Path:
        return self.home / named[1:].lstrip("/\\") if named.startswith("~") else Path(named)

    def find_claude_code(self) -> Iterator[Path]:
        """Yields the session files of Claude Code ($CLAUDE_CONFIG_DIR, else ~/.claude), subagents left out."""
        folder = self._find("CLAUDE_CONFIG_DIR", ".claude") / "projects"
        yield from (path for path in self._list(folder, "*/*.jsonl") if not path.name.startswith("agent-"))

    def find_codex(self) -> Iterator[Path]:
        """Yields the rollouts of Codex ($CODEX_HOME, else ~/.codex)."""
        yield from self._list(self._find("CODEX_HOME", ".codex") / "sessions", "**/rollout-*.jsonl")

    def find_pi(self) -> Iterator[Path]:
        """Yields the session files of pi ($PI_CODING_AGENT_SESSION_DIR, else the folder of $PI_CODING_AGENT_DIR)."""
        if named := self.environment.get("PI_CODING_AGENT_SESSION_DIR", "").strip():
            yield from self._list(self._expand(named), "**/*.jsonl")
        else:
            yield from self._list(self._find("PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions", "*/*.jsonl")

    def find_gemini_cli(self) -> Iterator[Path]:
        """Yields the session files of gemini-cli (.gemini in $GEMINI_CLI_HOME, else in your home folder)."""
        folder = self._find("GEMINI_CLI_HOME") / ".gemini" / "tmp"
        yield from (path for path in self._list(folder, "*/chats/session-*") if path.suffix in (".json", ".jsonl"))

    def find_qwen(self) -> Iterator[Path]:
        """Yields the chats of Qwen Code ($QWEN_HOME, else ~/.qwen)."""
        folder = self._find("QWEN_HOME", ".qwen")
        for place in ("projects", "tmp"):
            yield from self._list(folder / place, "*/chats/*.jsonl")

    def find_kimi(self) -> Iterator[Path]:
        """Yields the contexts of the Kimi CLI ($KIMI_SHARE_DIR, else ~/.kimi)."""
        yield from self._list(self._find("KIMI_SHARE_DIR", ".kimi") / "sessions", "*/*/context.jsonl")

    def find_cline(self) -> Iterator[Path]:
        """Yields the message files of cline ($CLINE_SESSION_DATA_DIR, $CLINE_DATA_DIR, or data/ in $CLINE_DIR)."""
        if named := self.environment.get("CLINE_SESSION_DATA_DIR", "").strip():
            folder = self._expand(named)
        else:
            folder = self._find_cline_data() / "sessions"
        yield from self._list(folder, "*/*.messages.json")

    def find_cline_tasks(self) -> Iterator[Path]:
        """Yields the messages of the tasks that cline kept before it had sessions.

        They lie in the global storage of its extension for VS Code and the editors made from it, on Linux, macOS,
        Windows and machines that an editor is connected to, and in cline's own folder.
        """
        kept = (
            self._find("XDG_CONFIG_HOME", ".config"),
            self.home / "Library" / "Application Support",
            self._find("APPDATA", "AppData", "Roaming"),
        )
        roots = [folder / editor for folder in kept for editor in _EDITORS]
        roots += [self.home / server / "data" for server in _SERVERS]
        for folder in (*(root.joinpath(*_EXTENSION) for root in roots), self._find_cline_data()):
            yield from self._list(folder, f"tasks/*/{TASK_FILE}")

    def _find_cline_data(self) -> Path:
        if named := self.environment.get("CLINE_DATA_DIR", "").strip():
            return self._expand(named)
        return self._find("CLINE_DIR", ".cline") / "data"

    def find_opencode(self) -> Iterator[Path]:
        """Yields the databases of opencode ($OPENCODE_DB, else those in opencode/ of $XDG_DATA_HOME)."""
        folder = self._find_opencode_data()
        if named := self.environment.get("OPENCODE_DB", "").strip():
            yield from (path for path in [folder / named] if path.is_file())
        else:
            yield from self._list(folder, "opencode*.db")

    def find_opencode_files(self) -> Iterator[Path]:
        """Yields the files that describe the sessions of opencode before 1.2, which had no database."""
        yield from self._list(self._find_opencode_data(), "storage/session/*/*.json")

    def _find_opencode_data(self) -> Path:
        return self._find("XDG_DATA_HOME", ".local", "share") / "opencode"
