"""Each client is told the gateway's address for one run, and its own configuration stays as it is."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tenfold.apps.clients.wrapped_clients import CLIENTS, find_wrapped_client
from tenfold.apps.gateway.client_overlays import ClientRun, overlay_client, route_variables
from tenfold.apps.gateway.gateway_routes import GatewayRoutes
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.config.settings import load_settings
from tenfold.errors import BadInput, UsageError
from tenfold.store.location import open_store

OWN = "http://localhost:9/api/v1"
"""An address that the user has configured."""


@pytest.fixture
def routes() -> Iterator[GatewayRoutes]:
    store = open_store(":memory:")
    with GatewayRoutes(GatewaySettings(), store, load_settings(environ={})) as opened:
        yield opened
    store.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def overlay(command: str, routes: GatewayRoutes, home: Path, **environ: str) -> Iterator[ClientRun]:
    with overlay_client(command.split(), routes, environ={"HOME": str(home), **environ}, folder=home / "work") as run:
        yield run


@pytest.mark.parametrize(
    ("command", "name", "count"),
    [
        ("codex exec hello", "codex", 1),
        ("/usr/local/bin/pi -c", "pi", 1),
        ("npx @openai/codex@latest exec", "codex", 2),
        ("npx -y @mariozechner/pi-coding-agent", "pi", 3),
        ("uvx --from x llm hello", "llm", 4),
        ("cn.cmd", "cn", 1),
        ("python agent.py codex", "", 1),
        ("my-agent llm", "", 1),
    ],
)
def test_a_client_is_known_by_its_program_or_package(command: str, name: str, count: int) -> None:
    client, words = find_wrapped_client(command.split())
    assert (client.names[0] if client else "", words) == (name, count)


def test_every_row_says_how_it_is_known() -> None:
    assert all(client.evidence for client in CLIENTS)
    names = [name for client in CLIENTS for name in client.names]
    assert len(names) == len(set(names))


def test_an_address_of_ones_own_becomes_an_upstream_and_keeps_its_version(routes: GatewayRoutes) -> None:
    routed = routes.route_address(OWN)
    gateway = routed.removesuffix("/v1")
    (served,) = [each for each in routes._gateways.values() if each.url == gateway]
    assert served.gateway.settings.upstream == "http://localhost:9/api"
    assert (
        served.gateway.settings.addresses.build_url("openai-chat", "/v1/chat/completions") == f"{OWN}/chat/completions"
    )
    assert routes.route_address(routed) == routed, "its own address is left alone"


def test_an_address_without_a_version_is_used_as_it_is(routes: GatewayRoutes) -> None:
    routed = routes.route_address("http://localhost:9/openai/deployments/one")
    (served,) = routes._gateways.values()
    assert routed == served.url
    url = served.gateway.settings.addresses.build_url("openai-chat", "/chat/completions", "api-version=1")
    assert url == "http://localhost:9/openai/deployments/one/chat/completions?api-version=1"


def test_a_provider_s_own_address_keeps_its_cheap_models(routes: GatewayRoutes) -> None:
    routed = routes.route_address("https://api.openai.com/v1")
    assert routed == f"{routes.route_default()}/v1"
    (served,) = routes._gateways.values()
    assert served.gateway.settings.addresses.has_own_address("openai-chat")


def test_what_is_no_address_is_refused(routes: GatewayRoutes) -> None:
    with pytest.raises(UsageError, match="is no address"):
        routes.route_address("localhost:8000")


def test_the_standard_variables_are_set_for_any_program(routes: GatewayRoutes, home: Path) -> None:
    for run in overlay("python agent.py --flag", routes, home, OPENAI_API_KEY="k", OPENAI_API_BASE=OWN):
        assert run.command == ("python", "agent.py", "--flag")
        assert run.environ["OPENAI_API_KEY"] == "k"
        own = routes.route_address(OWN)
        assert run.environ["OPENAI_BASE_URL"] == run.environ["OPENAI_API_BASE"] == own
        assert run.environ["ANTHROPIC_BASE_URL"] == routes.route_default() != own


def test_a_proxy_does_not_stand_between_a_client_and_the_gateway(routes: GatewayRoutes) -> None:
    variables = route_variables(
        {"HTTPS_PROXY": "http://proxy:1", "http_proxy": "http://proxy:1", "NO_PROXY": "x"}, routes
    )
    assert variables["NO_PROXY"] == "x,127.0.0.1"
    assert variables["no_proxy"] == "127.0.0.1"


def test_addresses_in_options_are_exchanged(routes: GatewayRoutes, home: Path) -> None:
    own = routes.route_address(OWN)
    command = f"mini -c mini.yaml -c model.model_kwargs.api_base={OWN} --openai-base-url {OWN} see {OWN}"
    for run in overlay(command, routes, home):
        assert run.command == (
            *("mini", "-c", "mini.yaml", "-c", f"model.model_kwargs.api_base={own}"),
            *("--openai-base-url", own, "see", OWN),
        )


def test_pi_gets_a_folder_of_links_with_a_copy_of_its_models(routes: GatewayRoutes, home: Path) -> None:
    own = home / ".pi/agent"
    text = json.dumps({"providers": {"mine": {"baseUrl": OWN, "apiKey": "secret"}}})
    models = write(own / "models.json", text)
    write(own / "auth.json", "{}")
    for run in overlay("pi -c", routes, home):
        folder = Path(run.environ["PI_CODING_AGENT_DIR"])
        providers = json.loads((folder / "models.json").read_text("utf-8"))["providers"]
        assert providers["mine"] == {"baseUrl": routes.route_address(OWN), "apiKey": "secret"}
        assert providers["anthropic"]["baseUrl"] == routes.route_default()
        assert (folder / "models.json").stat().st_mode & 0o077 == 0, "keys stand in it"
        write(folder / "sessions" / "one" / "a.jsonl", "{}")
        write(folder / "new.json", "1")
        (folder / "auth.json").unlink()
        write(folder / "auth.json", '{"changed": true}')
        assert (own / "sessions/one/a.jsonl").exists(), "the session is where it always is, at once"
    assert not folder.exists()
    assert models.read_text("utf-8") == text
    assert (own / "new.json").read_text("utf-8") == "1"
    assert json.loads((own / "auth.json").read_text("utf-8")) == {"changed": True}


def test_pi_without_a_configuration_gets_the_providers_addresses(routes: GatewayRoutes, home: Path) -> None:
    for run in overlay("pi", routes, home):
        models = json.loads((Path(run.environ["PI_CODING_AGENT_DIR"]) / "models.json").read_text("utf-8"))
        assert models["providers"]["openai"]["baseUrl"] == f"{routes.route_default()}/v1"
    assert not (home / ".pi/agent/models.json").exists()


def test_codex_gets_an_option_for_each_address(routes: GatewayRoutes, home: Path) -> None:
    write(home / "codex/config.toml", f'model_provider = "mine"\n[model_providers.mine]\nbase_url = "{OWN}"\n')
    for run in overlay("codex exec hello", routes, home, CODEX_HOME=str(home / "codex")):
        options = [tomllib.loads(word) for word in run.command[2:-2:2]]
        assert run.command[-2:] == ("exec", "hello")
        assert {"openai_base_url": f"{routes.route_default()}/v1"} in options
        assert {"model_providers": {"mine": {"base_url": routes.route_address(OWN)}}} in options


def test_codex_with_a_login_of_chatgpt_goes_where_it_always_goes(routes: GatewayRoutes, home: Path) -> None:
    write(home / ".codex/auth.json", '{"auth_mode": "chatgpt"}')
    for run in overlay("codex", routes, home):
        assert run.command[1] == "-c"
        upstreams = {served.gateway.settings.upstream for served in routes._gateways.values()}
        assert "https://chatgpt.com/backend-api/codex" in upstreams


def test_opencode_gets_only_the_addresses_beside_what_its_variable_has(routes: GatewayRoutes, home: Path) -> None:
    write(
        home / ".config/opencode/opencode.jsonc",
        f'{{// mine\n"provider": {{"mine": {{"options": {{"baseURL": "{OWN}", "apiKey": "secret"}},}}}}}}',
    )
    for run in overlay("opencode run hi", routes, home, OPENCODE_CONFIG_CONTENT='{"theme": "dark"}'):
        content = json.loads(run.environ["OPENCODE_CONFIG_CONTENT"])
        assert content["theme"] == "dark"
        assert content["provider"]["mine"] == {"options": {"baseURL": routes.route_address(OWN)}}
        assert content["provider"]["anthropic"]["options"]["baseURL"] == f"{routes.route_default()}/v1"


def test_continue_gets_a_copy_of_the_file_that_it_was_given(routes: GatewayRoutes, home: Path) -> None:
    config = write(
        home / "work/own.yaml",
        f"models:\n  - {{name: a, provider: openai, apiBase: {OWN}}}\n  - {{name: b, provider: anthropic}}\n",
    )
    for run in overlay("cn --config own.yaml -p hi", routes, home):
        assert run.command[:2] == ("cn", "--config")
        assert run.command[3:] == ("-p", "hi")
        first, second = yaml.safe_load(Path(run.command[2]).read_text("utf-8"))["models"]
        assert first["apiBase"] == routes.route_address(OWN)
        assert second["apiBase"] == f"{routes.route_default()}/v1/"
    assert OWN in config.read_text("utf-8")
    assert not Path(run.command[2]).exists()


def test_cline_is_told_of_a_copy_by_a_variable(routes: GatewayRoutes, home: Path) -> None:
    providers = {"providers": {"openai-compatible": {"settings": {"baseUrl": OWN}}}}
    write(home / ".cline/data/settings/providers.json", json.dumps(providers))
    for run in overlay("cline hi", routes, home):
        copy = json.loads(Path(run.environ["CLINE_PROVIDER_SETTINGS_PATH"]).read_text("utf-8"))
        assert copy["providers"]["openai-compatible"]["settings"]["baseUrl"] == routes.route_address(OWN)


def test_cline_runs_without_the_hub_that_would_keep_the_address_of_an_earlier_gateway(
    routes: GatewayRoutes, home: Path
) -> None:
    with overlay_client(["cline"], routes, environ={"HOME": str(home)}, folder=home) as run:
        assert run.environ["CLINE_SESSION_BACKEND_MODE"] == "local"
    environ = {"HOME": str(home), "CLINE_SESSION_BACKEND_MODE": "hub"}
    with overlay_client(["cline"], routes, environ=environ, folder=home) as run:
        assert run.environ["CLINE_SESSION_BACKEND_MODE"] == "hub"


@pytest.mark.parametrize("quote", ['"', "'"])
def test_kimi_s_file_keeps_its_comments(routes: GatewayRoutes, home: Path, quote: str) -> None:
    text = f'# mine\n[providers.p]\ntype = "openai"\nbase_url = {quote}{OWN}{quote}\n'
    write(home / ".kimi-code/config.toml", text)
    for run in overlay("kimi", routes, home):
        text = (Path(run.environ["KIMI_CODE_HOME"]) / "config.toml").read_text("utf-8")
        assert text == f'# mine\n[providers.p]\ntype = "openai"\nbase_url = "{routes.route_address(OWN)}"\n'


def test_claude_and_aider_get_options_only_where_their_files_have_addresses(routes: GatewayRoutes, home: Path) -> None:
    for command in ("claude -c", "aider"):
        for run in overlay(command, routes, home):
            assert list(run.command) == command.split()
    write(home / ".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": OWN}}))
    write(home / ".aider.conf.yml", f"openai-api-base: {OWN}\n")
    own = routes.route_address(OWN)
    for run in overlay("claude -c", routes, home):
        assert run.command == ("claude", "--settings", json.dumps({"env": {"ANTHROPIC_BASE_URL": own}}), "-c")
    for run in overlay("aider", routes, home):
        assert run.command == ("aider", "--openai-api-base", own)
        assert run.environ["OPENAI_BASE_URL"] == own, "its library prefers the variable"


def test_aider_summarizes_nothing_itself_unless_it_is_told_when(routes: GatewayRoutes, home: Path) -> None:
    """It counts for itself, whatever was really sent, and asks for a summary that it throws away after each edit."""
    for run in overlay("aider", routes, home):
        assert int(run.environ["AIDER_MAX_CHAT_HISTORY_TOKENS"]) > 10_000_000
    for run in overlay("aider", routes, home, AIDER_MAX_CHAT_HISTORY_TOKENS="9000"):
        assert run.environ["AIDER_MAX_CHAT_HISTORY_TOKENS"] == "9000"


def test_a_configuration_that_cannot_be_read_is_named(routes: GatewayRoutes, home: Path) -> None:
    write(home / ".pi/agent/models.json", '{"providers": ')
    with pytest.raises(BadInput, match=r"models\.json cannot be read"):
        next(overlay("pi", routes, home))


def test_an_upstream_that_was_named_gets_everything() -> None:
    store = open_store(":memory:")
    settings = GatewaySettings(upstream="http://localhost:7")
    with GatewayRoutes(settings, store, load_settings(environ={})) as routes:
        assert routes.route_address(OWN) == f"{routes.route_default()}/v1"
        assert len(routes._gateways) == 1
    store.close()
