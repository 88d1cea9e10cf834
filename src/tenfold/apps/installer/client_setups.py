"""What an installation into each client consists of: the place of its settings, and what is written there."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from tenfold import __version__
from tenfold.apps.installer.planned_changes import ClientSetup, OwnFile, SettingsEdit
from tenfold.apps.installer.settings_edits import JsonValue, build_json_edit, build_toml_edit

MARK = "Written by `tenfold install`"
"""Stands in every file that is written, so that it can be told from a user's own."""
HOOK_TIMEOUT = 60
"""Seconds that a client waits for a hook."""
_DESCRIPTION = "Earlier conversations stay searchable, and what must survive a compaction does"


class InstallTarget(Struct, frozen=True):
    """Where and how to install: the user's home, the environment, and the options of `tenfold mcp` to write down."""

    home: Path
    environ: Mapping[str, str]
    store: str = ""
    namespace: str = ""

    @property
    def options(self) -> list[str]:
        """The options that lead to the same sessions."""
        store = ["--store", str(Path(self.store).absolute())] if self.store else []
        return [*store, *(["--namespace", self.namespace] if self.namespace else [])]

    @property
    def mcp_arguments(self) -> list[str]:
        """The arguments of this Python that start the MCP server."""
        return ["-m", "tenfold", "mcp", *self.options]

    @property
    def hook_arguments(self) -> list[str]:
        """The program of the hooks and its arguments."""
        return [sys.executable, "-m", "tenfold", "hook", *self.options]

    @property
    def hook_command(self) -> str:
        """The shell command of the hooks."""
        return shlex.join(self.hook_arguments)

    def get_folder(self, variable: str, *default: str) -> Path:
        """Returns the folder that an environment variable names, else the default one in the user's home."""
        return Path(self.environ[variable]) if self.environ.get(variable) else self.home.joinpath(*default)


def build_setup(client: str, target: InstallTarget) -> ClientSetup:
    """Builds what an installation into a client consists of. `client` is one of `CLIENTS`."""
    return CLIENTS[client](target)


def read_asset(name: str) -> str:
    """Reads a file that comes with the package."""
    return files("tenfold.apps.installer").joinpath("assets", name).read_text("utf-8")


def _build_claude_setup(target: InstallTarget) -> ClientSetup:
    """A marketplace of one plugin in Claude Code's own folder, and the two settings that turn it on."""
    home = target.get_folder("CLAUDE_CONFIG_DIR", ".claude")
    folder = home / "tenfold"
    plugin = folder / "plugin"
    hook = {"type": "command", "command": target.hook_command, "timeout": HOOK_TIMEOUT}
    contents: dict[Path, object] = {
        folder / ".claude-plugin" / "marketplace.json": {
            "name": "tenfold",
            "owner": {"name": "Tenfold"},
            "metadata": {"description": MARK},
            "plugins": [{"name": "tenfold", "source": "./plugin", "description": _DESCRIPTION}],
        },
        plugin / ".claude-plugin" / "plugin.json": {
            "name": "tenfold",
            "version": __version__,
            "description": f"{_DESCRIPTION}. {MARK}.",
        },
        plugin / "hooks" / "hooks.json": {
            "description": MARK,
            "modules": ["./register.js"],  # function hooks, which older versions do not know and leave alone
            "hooks": {"PreCompact": [{"hooks": [hook]}], "SessionStart": [{"matcher": "compact", "hooks": [hook]}]},
        },
        plugin / ".mcp.json": {"mcpServers": {"tenfold": {"command": sys.executable, "args": target.mcp_arguments}}},
    }
    written = [OwnFile(path, json.dumps(value, indent=2) + "\n", "tenfold") for path, value in contents.items()]
    written += [
        OwnFile(plugin / "commands" / f"{name}.md", read_asset(f"claude-{name}.md"), MARK)
        for name in ("search", "rules", "status")
    ]
    register = read_asset("claude-register.js").replace('["TENFOLD_COMMAND"]', json.dumps(target.hook_arguments))
    written.append(OwnFile(plugin / "hooks" / "register.js", register, MARK))
    source = {"source": {"source": "directory", "path": str(folder)}}
    edit = build_json_edit(
        home / "settings.json",
        [
            JsonValue(("extraKnownMarketplaces", "tenfold"), source),
            JsonValue(("enabledPlugins", "tenfold@tenfold"), True),
        ],
    )
    hint = f"start Claude Code anew; if /plugin does not list tenfold, type /plugin marketplace add {folder}"
    return ClientSetup("claude-code", (edit,), tuple(written), folder, hint)


def _build_codex_setup(target: InstallTarget) -> ClientSetup:
    path = target.get_folder("CODEX_HOME", ".codex") / "config.toml"
    values = {"command": sys.executable, "args": target.mcp_arguments}
    hint = "`codex mcp list` shows it; a running session has to be started anew"
    return ClientSetup("codex", (build_toml_edit(path, ("mcp_servers", "tenfold"), values),), hint=hint)


def _build_opencode_setup(target: InstallTarget) -> ClientSetup:
    folder = target.get_folder("OPENCODE_CONFIG_DIR", ".config", "opencode")
    if not target.environ.get("OPENCODE_CONFIG_DIR") and target.environ.get("XDG_CONFIG_HOME"):
        folder = Path(target.environ["XDG_CONFIG_HOME"]) / "opencode"
    names = [folder / name for name in ("opencode.json", "opencode.jsonc") if (folder / name).exists()]
    server = {"type": "local", "command": [sys.executable, *target.mcp_arguments], "enabled": True}
    path = names[0] if names else folder / "opencode.json"
    edit: SettingsEdit = build_json_edit(path, [JsonValue(("mcp", "tenfold"), server)])
    plugin = OwnFile(folder / "plugin" / "tenfold.ts", read_asset("opencode-plugin.ts"), MARK)
    hint = "`opencode mcp list` shows the server; the plugin works while `tenfold serve` runs"
    return ClientSetup("opencode", (edit,), (plugin,), hint=hint)


def _build_pi_setup(target: InstallTarget) -> ClientSetup:
    folder = target.get_folder("PI_CODING_AGENT_DIR", ".pi", "agent") / "extensions"
    extension = OwnFile(folder / "tenfold.ts", read_asset("pi-extension.ts"), MARK)
    return ClientSetup("pi", files=(extension,), hint="the extension works while `tenfold serve` runs")


CLIENTS: Mapping[str, Callable[[InstallTarget], ClientSetup]] = {
    "claude-code": _build_claude_setup,
    "codex": _build_codex_setup,
    "opencode": _build_opencode_setup,
    "pi": _build_pi_setup,
}
"""What builds the setup of each client, by the client's name."""


def find_home() -> InstallTarget:
    """Returns the target of the user who runs this process."""
    return InstallTarget(Path.home(), os.environ)
