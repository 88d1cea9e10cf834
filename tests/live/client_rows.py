"""The programs that are run, unmodified: how each is pointed at an address, given a task, and told to go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

KEY = "only-for-this-server"
PROVIDER = "local"


class ClientRow(Struct, frozen=True):
    """One client. `configure` writes its configuration into a home and returns variables for its environment.

    `begin` is its command line without the task, which is added at the end, and `resume` the same for the second task.
    `window` is larger than usual where the client's own prompt and tools leave too little of it.
    """

    name: str
    package: str
    version: str
    api: str
    configure: Callable[[Path, str], dict[str, str]]
    begin: Sequence[str]
    resume: Sequence[str]
    window: int = 16_000
    model: str = "m"
    is_python: bool = False


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _configure_pi(api: str) -> Callable[[Path, str], dict[str, str]]:
    def configure(home: Path, url: str) -> dict[str, str]:
        base = url if api == "anthropic-messages" else f"{url}/v1"
        model = {"id": "m", "reasoning": True, "contextWindow": 200_000, "maxTokens": 1_000}
        provider = {"baseUrl": base, "api": api, "apiKey": KEY, "models": [model]}
        _write(home / ".pi/agent/models.json", json.dumps({"providers": {PROVIDER: provider}}))
        return {}

    return configure


def _configure_codex(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".codex/config.toml",
        f'model = "gpt-5"\nmodel_provider = "{PROVIDER}"\napproval_policy = "never"\n'
        f'sandbox_mode = "danger-full-access"\n[model_providers.{PROVIDER}]\nname = "{PROVIDER}"\n'
        f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n',
    )
    return {"OPENAI_API_KEY": KEY}


def _configure_opencode(home: Path, url: str) -> dict[str, str]:
    models = {"m": {"name": "m", "limit": {"context": 200_000, "output": 1_000}}}
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": PROVIDER, "options": options, "models": models}
    permission = {"*": "allow", "external_directory": "allow"}
    config = {"provider": {PROVIDER: provider}, "permission": permission, "autoupdate": False}
    _write(home / ".config/opencode/opencode.json", json.dumps(config))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _configure_qwen(home: Path, url: str) -> dict[str, str]:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False}}
    _write(home / ".qwen/settings.json", json.dumps(settings))
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m"}


def _configure_gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    _write(home / ".gemini/settings.json", json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _configure_continue(api: str) -> Callable[[Path, str], dict[str, str]]:
    def configure(home: Path, url: str) -> dict[str, str]:
        _write(
            home / ".continue/config.yaml",
            f"name: local\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: m\n    provider: {api}\n    model: m\n"
            f"    apiBase: {url}/v1/\n    apiKey: {KEY}\n    roles: [chat]\n    capabilities: [tool_use]\n"
            "    defaultCompletionOptions:\n      contextLength: 200000\n      maxTokens: 1000\n",
        )
        return {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0"}

    return configure


def _configure_cline(home: Path, url: str) -> dict[str, str]:
    settings = {
        "provider": "openai-compatible", "apiKey": KEY, "model": "m", "baseUrl": f"{url}/v1",
    }  # fmt: skip
    entry = {"settings": settings, "updatedAt": "2026-11-01T00:00:00.000Z", "tokenSource": "manual"}
    config = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": entry}}
    _write(home / ".cline/data/settings/providers.json", json.dumps(config))
    return {}


_PI = ("pi", "--provider", PROVIDER, "--model", "m")
_GEMINI = ("gemini", "--yolo", "-m", "gemini-2.5-pro")
_CONFIG_OF_CONTINUE = ("--config", "{home}/.continue/config.yaml")
CLIENTS: Sequence[ClientRow] = (
    ClientRow(
        "pi (chat)", "@mariozechner/pi-coding-agent", "0.73.1", "chat", _configure_pi("openai-completions"),
        (*_PI, "-p"), (*_PI, "-c", "-p"),
    ),
    ClientRow(
        "pi (responses)", "@mariozechner/pi-coding-agent", "0.73.1", "responses", _configure_pi("openai-responses"),
        (*_PI, "-p"), (*_PI, "-c", "-p"),
    ),
    ClientRow(
        "pi (messages)", "@mariozechner/pi-coding-agent", "0.73.1", "messages", _configure_pi("anthropic-messages"),
        (*_PI, "-p"), (*_PI, "-c", "-p"),
    ),
    ClientRow(
        "codex", "@openai/codex", "0.169.0", "responses", _configure_codex,
        ("codex", "exec", "--json", "--skip-git-repo-check"),
        ("codex", "exec", "resume", "--last", "--json", "--skip-git-repo-check"), model="gpt-5",
    ),
    ClientRow(
        "opencode", "opencode-ai", "1.18.33", "chat", _configure_opencode,
        ("opencode", "run", "-m", f"{PROVIDER}/m"), ("opencode", "run", "-c", "-m", f"{PROVIDER}/m"),
    ),
    ClientRow(
        "qwen", "@qwen-code/qwen-code", "0.15.10", "chat", _configure_qwen,
        ("qwen", "--yolo", "-p"), ("qwen", "--yolo", "-c", "-p"), window=48_000,
    ),
    ClientRow(
        "gemini", "@google/gemini-cli", "0.61.0", "generate", _configure_gemini,
        (*_GEMINI, "-p"), (*_GEMINI, "-r", "latest", "-p"),
        model="gemini-2.5-pro",
    ),
    ClientRow(
        "cline", "cline", "3.0.65", "chat", _configure_cline,
        ("cline", "--json", "-P", "openai-compatible", "-m", "m"),
        ("cline", "--json", "-P", "openai-compatible", "-m", "m", "--id", "{session}"),
    ),
    ClientRow(
        "Continue (chat)", "@continuedev/cli", "1.5.47", "chat", _configure_continue("openai"),
        ("cn", *_CONFIG_OF_CONTINUE, "--auto", "-p"), ("cn", *_CONFIG_OF_CONTINUE, "--auto", "--resume", "-p"),
    ),
    ClientRow(
        "Continue (messages)", "@continuedev/cli", "1.5.47", "messages", _configure_continue("anthropic"),
        ("cn", *_CONFIG_OF_CONTINUE, "--auto", "-p"), ("cn", *_CONFIG_OF_CONTINUE, "--auto", "--resume", "-p"),
    ),
)  # fmt: skip
