"""What is known of clients: where each has the addresses of its models, and how it is told others for one run.

Nothing of a client's own configuration is changed. A client is told by variables of its environment, by options of its
command line, or by a copy of a configuration file in a temporary folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

Delivery = Literal["folder", "file variable", "file option", "text variable", "text option", "pairs"]
"""How a client is handed a configuration.

With "folder" a variable names a folder of links to the client's own files, with the copy in place of one. With "file
variable" and "file option" the copy itself is named. With the others only the addresses are handed over, as JSON text
or as one option for each of them.
"""


class StandardVariable(Struct, frozen=True):
    """A variable that holds the base URL of an API. `suffix` follows the gateway's address. `others` mean the same."""

    name: str
    suffix: str = ""
    others: tuple[str, ...] = ()


STANDARD_VARIABLES = (
    StandardVariable("OPENAI_BASE_URL", "/v1", ("OPENAI_API_BASE", "AIDER_OPENAI_API_BASE")),
    StandardVariable("ANTHROPIC_BASE_URL", "", ("ANTHROPIC_API_BASE",)),
    StandardVariable("GOOGLE_GEMINI_BASE_URL", "", ("GEMINI_API_BASE",)),
)
"""What SDKs and most clients read. They are set for every program."""
OTHER_VARIABLES = (
    "LLM_BASE_URL", "KIMI_CODE_BASE_URL", "OPENROUTER_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "COPILOT_PROVIDER_BASE_URL",
    "GROK_BASE_URL",
)  # fmt: skip
"""Variables that are set to a gateway only where they are set already."""


class DefaultAddress(Struct, frozen=True):
    """An address that is added where the configuration has none, so that the provider's own is not used.

    It is added only to a member whose field `when[0]` is `when[1]`, if `when` is given.
    """

    place: str
    suffix: str = ""
    when: tuple[str, str] | None = None


class WrappedClient(Struct, frozen=True, kw_only=True):
    """One client. `names` are its programs and packages.

    `files` are where its configuration may stand: those that exist are read, later ones before earlier ones; a folder
    variable that is set takes the place of the folder. `places` are where addresses stand in it, as in
    "providers.*.baseUrl". `handle` is the variable or option that takes the configuration; of pairs it is how one
    option is written. `state` are folders that the client writes its sessions to. `login` says that a field of a file
    beside the configuration names another upstream. `variables` are set besides, unless they are set already.
    `place_variables` name variables that take the address of a place as well, as its library reads them first.
    `evidence` says how it is known.
    """

    names: tuple[str, ...]
    evidence: str
    files: tuple[str, ...] = ()
    folder_variable: str = ""
    content_variable: str = ""
    places: tuple[str, ...] = ()
    defaults: tuple[DefaultAddress, ...] = ()
    delivery: Delivery | None = None
    handle: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    place_variables: Mapping[str, str] = {}
    login: tuple[str, str, str, str] | None = None


_RUN = "run through this command, see docs/clients.md"
_OPENCODE_DEFAULTS = (
    DefaultAddress("provider.openai.options.baseURL", "/v1"),
    DefaultAddress("provider.anthropic.options.baseURL", "/v1"),
    DefaultAddress("provider.google.options.baseURL", "/v1beta"),
)
"""Those of opencode, and of Kilo, which was made from it."""
CLIENTS: Sequence[WrappedClient] = (
    WrappedClient(
        names=("claude", "@anthropic-ai/claude-code"),
        files=("~/.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json"),
        folder_variable="CLAUDE_CONFIG_DIR",
        places=("env.ANTHROPIC_BASE_URL",),
        delivery="text option",
        handle=("--settings",),
        evidence=_RUN,
    ),
    WrappedClient(
        names=("codex", "@openai/codex"),
        files=("~/.codex/config.toml",),
        folder_variable="CODEX_HOME",
        places=("openai_base_url", "model_providers.*.base_url"),
        defaults=(DefaultAddress("openai_base_url", "/v1"),),
        delivery="pairs",
        handle=("-c", "{key}={json}"),
        login=("auth.json", "auth_mode", "chatgpt", "https://chatgpt.com/backend-api/codex"),
        evidence=f"{_RUN}; the login of ChatGPT was not run",
    ),
    WrappedClient(
        names=("pi", "@mariozechner/pi-coding-agent"),
        files=("~/.pi/agent/models.json",),
        folder_variable="PI_CODING_AGENT_DIR",
        places=("providers.*.baseUrl",),
        defaults=(
            DefaultAddress("providers.openai.baseUrl", "/v1"),
            DefaultAddress("providers.anthropic.baseUrl"),
            DefaultAddress("providers.google.baseUrl", "/v1beta"),
        ),
        delivery="folder",
        handle=("PI_CODING_AGENT_DIR",),
        state=("sessions",),
        evidence=_RUN,
    ),
    WrappedClient(
        names=("opencode", "opencode-ai"),
        files=(
            "~/.config/opencode/opencode.json",
            "~/.config/opencode/opencode.jsonc",
            "$OPENCODE_CONFIG",
            "opencode.json",
            "opencode.jsonc",
        ),
        content_variable="OPENCODE_CONFIG_CONTENT",
        places=("provider.*.options.baseURL",),
        defaults=_OPENCODE_DEFAULTS,
        delivery="text variable",
        handle=("OPENCODE_CONFIG_CONTENT",),
        evidence=_RUN,
    ),
    WrappedClient(
        names=("kilo", "kilocode", "@kilocode/cli"),
        files=(
            "~/.config/kilo/config.json",
            "~/.config/kilo/opencode.json",
            "~/.config/kilo/opencode.jsonc",
            "~/.config/kilo/kilo.json",
            "~/.config/kilo/kilo.jsonc",
            "$KILO_CONFIG",
            "opencode.json",
            "opencode.jsonc",
            "kilo.json",
            "kilo.jsonc",
        ),
        content_variable="KILO_CONFIG_CONTENT",
        places=("provider.*.options.baseURL",),
        defaults=_OPENCODE_DEFAULTS,
        delivery="text variable",
        handle=("KILO_CONFIG_CONTENT",),
        evidence="run through this command by hand (7.7.9), with a provider of its configuration",
    ),
    WrappedClient(
        names=("cline",),
        files=("~/.cline/data/settings/providers.json",),
        places=("providers.*.settings.baseUrl",),
        delivery="file variable",
        handle=("CLINE_PROVIDER_SETTINGS_PATH",),
        # Its hub is a process that outlives it, and that would keep the address of a gateway that has ended.
        variables={"CLINE_SESSION_BACKEND_MODE": "local"},
        evidence=_RUN,
    ),
    WrappedClient(
        names=("cn", "@continuedev/cli"),
        files=("~/.continue/config.yaml",),
        folder_variable="CONTINUE_GLOBAL_DIR",
        places=("models.*.apiBase",),
        defaults=(
            DefaultAddress("models.*.apiBase", "/v1/", ("provider", "openai")),
            DefaultAddress("models.*.apiBase", "/v1/", ("provider", "anthropic")),
            DefaultAddress("models.*.apiBase", "/v1beta/", ("provider", "gemini")),
        ),
        delivery="file option",
        handle=("--config",),
        evidence=_RUN,
    ),
    WrappedClient(
        names=("qwen", "@qwen-code/qwen-code"),
        files=("~/.qwen/settings.json",),
        folder_variable="QWEN_HOME",
        places=("modelProviders.*.*.baseUrl", "security.auth.baseUrl"),
        delivery="folder",
        handle=("QWEN_HOME",),
        evidence=f"{_RUN}, by OPENAI_BASE_URL",
    ),
    WrappedClient(
        names=("kimi", "@moonshot-ai/kimi-code"),
        files=("~/.kimi-code/config.toml",),
        folder_variable="KIMI_CODE_HOME",
        places=("providers.*.base_url",),
        delivery="folder",
        handle=("KIMI_CODE_HOME",),
        state=("sessions",),
        evidence=_RUN,
    ),
    WrappedClient(
        names=("copilot", "@github/copilot"),
        evidence=f"{_RUN}, by COPILOT_PROVIDER_BASE_URL, where it is set: GitHub's own models cannot be led elsewhere",
    ),
    WrappedClient(names=("gemini", "@google/gemini-cli"), evidence=f"{_RUN}, by GOOGLE_GEMINI_BASE_URL"),
    WrappedClient(
        names=("aider", "aider-chat"),
        files=("~/.aider.conf.yml", ".aider.conf.yml"),
        places=("openai-api-base",),
        delivery="pairs",
        handle=("--{key}", "{value}"),
        # It counts by itself, whatever was sent, and has its history summarized from 8,000 tokens on at the latest.
        variables={"AIDER_MAX_CHAT_HISTORY_TOKENS": "1000000000"},
        # Its option sets another variable, and its library prefers this one.
        place_variables={"openai-api-base": "OPENAI_BASE_URL"},
        evidence="run through this command by hand (0.86.2), with its file, OPENAI_API_BASE and ANTHROPIC_BASE_URL",
    ),
    WrappedClient(
        names=("llm",),
        files=(
            "~/.config/io.datasette.llm/extra-openai-models.yaml",
            "~/Library/Application Support/io.datasette.llm/extra-openai-models.yaml",
        ),
        folder_variable="LLM_USER_PATH",
        places=("*.api_base",),
        delivery="folder",
        handle=("LLM_USER_PATH",),
        evidence=_RUN,
    ),
    WrappedClient(
        names=("mini", "mini-swe-agent"),
        evidence=f"{_RUN}, by OPENAI_BASE_URL, and by its option model_kwargs.api_base",
    ),
    WrappedClient(
        names=("openhands", "openhands-ai"),
        evidence="run through this command by hand (1.16.0), by LLM_BASE_URL, where it is set",
    ),
)
"""Every client that is known by name. Others are told by `STANDARD_VARIABLES`."""
_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx", "run", "dlx", "exec", "x", "tool"})
"""Programs that start another one, and what may stand before its name."""


def find_wrapped_client(command: Sequence[str]) -> tuple[WrappedClient | None, int]:
    """Returns the client that a command line starts, and how many words its name takes. None for any other program.

    find_wrapped_client(["npx", "@openai/codex@latest", "exec"])  # the row of codex, 2
    """
    for count, word in enumerate(command[:4], 1):
        name = _read_program_name(word)
        found = next((client for client in CLIENTS if name in client.names), None)
        if found is not None:
            return found, count
        if not word.startswith("-") and name not in _RUNNERS and count == 1 and name not in ("pnpm", "bun", "uv"):
            return None, 1
    return None, 1


def _read_program_name(word: str) -> str:
    """Returns a program's or a package's name without folder, extension and version."""
    if word.startswith("@"):
        scope, _, rest = word.partition("/")
        return f"{scope}/{rest.partition('@')[0]}"
    name = PurePosixPath(word.replace("\\", "/")).name
    return name.partition("@")[0].removesuffix(".exe").removesuffix(".cmd").removesuffix(".js")


def list_addresses(document: object, pattern: str) -> list[tuple[tuple[str | int, ...], str]]:
    """Returns the places that a pattern such as "providers.*.baseUrl" finds, each with the address there."""
    return [(path, value) for path, value in _walk(document, tuple(pattern.split("."))) if isinstance(value, str)]


def list_members(document: object, pattern: str) -> list[tuple[tuple[str | int, ...], Mapping[str, object]]]:
    """Returns the objects that a pattern finds."""
    parts = tuple(pattern.split(".")) if pattern else ()
    return [(path, value) for path, value in _walk(document, parts) if isinstance(value, Mapping)]


def _walk(value: object, parts: tuple[str, ...]) -> list[tuple[tuple[str | int, ...], object]]:
    if not parts:
        return [((), value)]
    found: list[tuple[str | int, object]] = []
    if isinstance(value, Mapping):
        found = [(key, value[key]) for key in value if parts[0] in ("*", key)]
    elif isinstance(value, list) and parts[0] == "*":
        found = list(enumerate(value))
    return [((key, *path), leaf) for key, inner in found for path, leaf in _walk(inner, parts[1:])]
