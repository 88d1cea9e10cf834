"""The programs that are run, unmodified: how each is pointed at an address, given a task, and told to go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

KEY = "only-for-this-server"
PROVIDER = "local"


class ClientRow(Struct, frozen=True):
    """One client. `place` is its folder in `clients`; without one it is in the project's own environment.

    `configure` writes its configuration into a home and returns variables for its environment. `begin` is its command
    line without the task, which is added at the end, and `resume` the same for the second task; without it the client
    has no way to go on with a session. `window` is larger than usual where the client's own prompt and tools leave too
    little of it. `end_command` is a command by which the model says that it is done. With `resumes_in_terminal` the
    second task is typed. `stop` ends what the client leaves running. `options` are for the wrapper.
    """

    name: str
    place: str
    version: str
    configure: Callable[[Path, str], dict[str, str]]
    begin: Sequence[str]
    resume: Sequence[str] = ()
    window: int = 16_000
    end_command: str = ""
    resumes_in_terminal: bool = False
    stop: Sequence[str] = ()
    options: Sequence[str] = ()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _configure_claude_code(home: Path, url: str) -> dict[str, str]:
    del home  # two variables are enough
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **quiet}


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


def _configure_plain_codex(home: Path, url: str) -> dict[str, str]:
    del url  # its own provider, which is reached by the wrapper's option
    _write(
        home / ".codex/config.toml", 'model = "gpt-5"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
    )
    return {"CODEX_API_KEY": KEY}


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


def _configure_llm(home: Path, url: str) -> dict[str, str]:
    model = {
        "model_id": "m", "model_name": "m", "api_base": f"{url}/v1", "supports_tools": True, "api_key_name": "local",
    }  # fmt: skip
    _write(home / ".config/io.datasette.llm/extra-openai-models.yaml", json.dumps([model]))
    _write(home / ".config/io.datasette.llm/keys.json", json.dumps({"local": KEY}))
    return {}


def _configure_kimi(api: str) -> Callable[[Path, str], dict[str, str]]:
    def configure(home: Path, url: str) -> dict[str, str]:
        base = url if api == "anthropic" else f"{url}/v1"
        _write(
            home / ".kimi-code/config.toml",
            f'default_model = "m"\n[providers.{PROVIDER}]\ntype = "{api}"\nbase_url = "{base}"\napi_key = "{KEY}"\n'
            f'[models.m]\nprovider = "{PROVIDER}"\nmodel = "m"\nmax_context_size = 200000\n',
        )
        return {"KIMI_DISABLE_TELEMETRY": "1"}

    return configure


def _configure_copilot(api: str) -> Callable[[Path, str], dict[str, str]]:
    def configure(home: Path, url: str) -> dict[str, str]:
        del home  # it has no configuration of a provider but variables
        return {
            "COPILOT_PROVIDER_BASE_URL": url if api == "anthropic" else f"{url}/v1",
            "COPILOT_PROVIDER_TYPE": api,
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "200000",
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "4000",
            "COPILOT_MODEL": "m",
            "COPILOT_OFFLINE": "true",
        }

    return configure


def _configure_mini(home: Path, url: str) -> dict[str, str]:
    _write(home / ".config/mini-swe-agent/.env", "MSWEA_CONFIGURED=true\n")
    quiet = {
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_SILENT_STARTUP": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, **quiet}


def _configure_variables(home: Path, url: str) -> dict[str, str]:
    del home  # SDKs have no configuration but variables
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }


def _build_agent_row(name: str, place: str, version: str, *arguments: str, script: str = "") -> ClientRow:
    """The row of an agent of our own on a framework: the script clients/NAME/agent.py."""
    command = ("{python}", f"{{clients}}/{script or place}/agent.py", *arguments)
    return ClientRow(name, place, version, _configure_variables, command, command)


def _build_copilot_row(name: str, api: str) -> ClientRow:
    """Its own prompt and tools take 12,000 tokens."""
    command = ("copilot", "--allow-all-tools")
    resumed = (*command, "--continue", "-p")
    return ClientRow(name, "copilot", "1.0.102", _configure_copilot(api), (*command, "-p"), resumed, window=32_000)


def _build_kimi_row(name: str, api: str) -> ClientRow:
    """Its own prompt and tools take 21,000 tokens."""
    return ClientRow(name, "kimi", "2.1.0", _configure_kimi(api), ("kimi", "-p"), ("kimi", "-c", "-p"), window=32_000)


_CLAUDE = ("claude", "--model", "claude-sonnet-4-5")
_PI = ("pi", "--provider", PROVIDER, "--model", "m")
_CODEX = ("--json", "--skip-git-repo-check")
_GEMINI = ("gemini", "--yolo", "-m", "gemini-2.5-pro")
_CN = ("cn", "--config", "{home}/.continue/config.yaml", "--auto")
_LLM = ("llm", "-m", "m", "--functions", "{clients}/llm/tools.py", "--chain-limit", "0")
_CLINE = ("cline", "-P", "openai-compatible", "-m", "m")
_MINI = ("mini", "-y", "-m", "openai/gpt-4o", "--exit-immediately", "-t")
_END_OF_MINI = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CLIENTS: Sequence[ClientRow] = (
    ClientRow(
        "Claude Code, Messages", "claude-code", "2.1.332", _configure_claude_code,
        ("claude", "-p"), ("claude", "-c", "-p"), window=32_000,
    ),
    ClientRow(
        "Claude Code with an older model, Messages", "claude-code", "2.1.332", _configure_claude_code,
        (*_CLAUDE, "-p"), (*_CLAUDE, "-c", "-p"), window=32_000,
    ),
    ClientRow("pi, Chat", "pi", "0.73.1", _configure_pi("openai-completions"), (*_PI, "-p"), (*_PI, "-c", "-p")),
    ClientRow("pi, Responses", "pi", "0.73.1", _configure_pi("openai-responses"), (*_PI, "-p"), (*_PI, "-c", "-p")),
    ClientRow("pi, Messages", "pi", "0.73.1", _configure_pi("anthropic-messages"), (*_PI, "-p"), (*_PI, "-c", "-p")),
    ClientRow(
        "codex, Responses", "codex", "0.169.0", _configure_codex,
        ("codex", "exec", *_CODEX), ("codex", "exec", "resume", "--last", *_CODEX),
    ),
    ClientRow(
        "codex with its own provider, Responses", "codex", "0.169.0", _configure_plain_codex,
        ("codex", "exec", *_CODEX), ("codex", "exec", "resume", "--last", *_CODEX), options=("--upstream", "{url}"),
    ),
    ClientRow(
        "opencode, Chat", "opencode", "1.18.33", _configure_opencode,
        ("opencode", "run", "-m", f"{PROVIDER}/m"), ("opencode", "run", "-c", "-m", f"{PROVIDER}/m"),
    ),
    ClientRow(
        "qwen, Chat", "qwen", "0.15.10", _configure_qwen, ("qwen", "--yolo", "-p"), ("qwen", "--yolo", "-c", "-p"),
        window=32_000,
    ),
    ClientRow(
        "gemini, generateContent", "gemini", "0.61.0", _configure_gemini,
        (*_GEMINI, "-p"), (*_GEMINI, "-r", "latest", "-p"),
    ),
    ClientRow(
        "cline, Chat", "cline", "3.0.65", _configure_cline, (*_CLINE, "--json"), (*_CLINE, "--id", "{session}"),
        resumes_in_terminal=True, stop=("cline", "hub", "stop"),
    ),
    ClientRow(
        "Continue, Chat", "continue", "1.5.47", _configure_continue("openai"), (*_CN, "-p"), (*_CN, "--resume", "-p")
    ),
    ClientRow(
        "Continue, Messages", "continue", "1.5.47", _configure_continue("anthropic"),
        (*_CN, "-p"), (*_CN, "--resume", "-p"),
    ),
    _build_kimi_row("kimi, Chat", "openai"),
    _build_kimi_row("kimi, Responses", "openai_responses"),
    _build_kimi_row("kimi, Messages", "anthropic"),
    _build_copilot_row("Copilot CLI, Chat", "openai"),
    _build_copilot_row("Copilot CLI, Messages", "anthropic"),
    ClientRow("llm, Chat", "llm", "0.36", _configure_llm, _LLM, (*_LLM, "-c")),
    ClientRow("mini-swe-agent, Chat", "mini", "2.4.6", _configure_mini, _MINI, end_command=_END_OF_MINI),
    _build_agent_row("OpenAI SDK, Chat", "", "", "chat", script="openai-sdk"),
    _build_agent_row("OpenAI SDK, Responses", "", "", "responses", script="openai-sdk"),
    _build_agent_row("Anthropic SDK, Messages", "", "", script="anthropic-sdk"),
    _build_agent_row("pydantic-ai, Chat", "", "", "openai-chat:gpt-4o", script="pydantic-ai"),
    _build_agent_row("pydantic-ai, Responses", "", "", "openai-responses:gpt-4o", script="pydantic-ai"),
    _build_agent_row("pydantic-ai, Messages", "", "", "anthropic:claude-opus-4-6", script="pydantic-ai"),
    _build_agent_row("LangChain, Chat", "langchain", "1.4.7", "openai"),
    _build_agent_row("LangChain, Messages", "langchain", "1.4.7", "anthropic"),
    _build_agent_row("OpenAI Agents, Responses", "openai-agents", "0.24.0"),
    _build_agent_row("google-adk, Chat", "google-adk", "2.13.0", "openai/gpt-4o"),
    _build_agent_row("google-adk, generateContent", "google-adk", "2.13.0", "gemini-2.5-flash"),
    _build_agent_row("OpenHands SDK, Chat", "openhands", "1.58.0", "openai/gpt-4o"),
    _build_agent_row("OpenHands SDK, Messages", "openhands", "1.58.0", "anthropic/claude-sonnet-4-5"),
)  # fmt: skip
