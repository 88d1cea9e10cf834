"""`tenfold compact --model` end to end: every preset, through the real clients of the providers, to a local server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenfold.apps.cli.store_access import parse_models
from tenfold.compaction.summarize.headings import BRANCH_HEADINGS
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.designs.tail.writer import PREFIX_HEADINGS
from tenfold.errors import UsageError
from tests.cli.conftest import EXAMPLES, Cli, write_messages
from tests.models.conftest import SECRET, keys
from tests.models.loopback import ANSWERS, Got, Loopback, Script, Served, get_base_url
from tests.store.build import read_disk

__all__ = ["keys"]
TOLD = "The work on the logs went on step by step: each file was read, changed and run in turn, and the tests passed."


def make_writer(policy: str) -> Script:
    """A model that writes a usable summary for that policy: each heading it is asked for, with a line under it."""
    settings = build_policy(policy, CharacterCounter(), models=("m",)).summary

    def write_summary(got: Got) -> Served:
        asked = [settings.headings, PREFIX_HEADINGS, BRANCH_HEADINGS]
        said = next((h for h in asked if h and all(heading in got.prompt for heading in h)), ())
        text = "\n".join(f"{heading}\n- {TOLD}" for heading in said) if said else TOLD
        return Served(text=text, tokens=(2_000, 300))

    return write_summary


@pytest.mark.costly(3)
@pytest.mark.parametrize("model", ANSWERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_compacts_with_a_model_of_a_real_client(tenfold: Cli, pi: Path, policy: str, model: str) -> None:
    with Loopback(script=make_writer(policy)) as loopback:
        base = get_base_url(model, loopback)
        told = tenfold.run_json("compact", pi, "--to", "10%", "--policy", policy, "--model", model, "--base-url", base)
        got = loopback.requests
    assert told["status"] == "compacted"
    assert told["violations"] == []
    assert told["policy"] == policy
    assert len(got) == told["spent"].get("calls", 0)
    asks = bool(got)
    assert asks or told["rung"] == "none", "a policy that writes no summary asks for none"
    if asks:
        assert told["rung"] == "model", told["notes"]
        assert told["spent"]["model"] == model
        assert told["spent"]["input_tokens"] == 2_000 * len(got)
        assert told["spent"]["output_tokens"] == 300 * len(got)
        assert told["spent"]["price"] > 0
        assert all(g.body["model"] == model.partition(":")[2] for g in got)
        shown = tenfold.run_json("show", told["session"])["timeline"]
        assert any(TOLD[:30] in row["text"] for row in shown if row["seen"] == "summary")


def test_every_policy_asks_the_model_when_the_target_is_low(tenfold: Cli, pi: Path) -> None:
    silent = []
    for policy in POLICIES:
        with Loopback(script=make_writer(policy)) as loopback:
            base = get_base_url("openai:m", loopback)
            tenfold.run_ok("compact", pi, "--to", "6%", "--policy", policy, "--model", "openai:m", "--base-url", base)
            if not loopback.requests:
                silent.append(policy)
        tenfold.store.unlink()
    assert silent == []


def test_the_result_tells_model_calls_tokens_and_price(tenfold: Cli, pi: Path) -> None:
    with Loopback(script=make_writer("tenfold")) as loopback:
        base = get_base_url("openai:", loopback)
        ran = tenfold.run_ok("compact", pi, "--to", "10%", "--model", "openai:gpt-4o-mini", "--base-url", base)
    assert "summary by model" in ran.out
    assert "model openai:gpt-4o-mini: 1 call, 2,000 tokens read, 300 written, price $0.0005" in ran.out


def test_the_second_model_is_the_fallback_of_the_first(tenfold: Cli, pi: Path) -> None:
    def serve_fallback(got: Got) -> Served:
        return Served(status=401) if got.body["model"] == "first" else make_writer("tenfold")(got)

    with Loopback(script=serve_fallback) as loopback:
        models = ("--model", "openai:first", "--model", "openai:second")
        told = tenfold.run_json("compact", pi, "--to", "10%", *models, "--base-url", get_base_url("openai:", loopback))
    assert told["rung"] == "next_model"
    assert told["spent"]["model"] == "openai:second"
    assert any("openai:first" in note and "401" in note for note in told["notes"])


def test_a_server_that_only_fails_costs_no_compaction_and_its_errors_hold_no_key(tenfold: Cli, pi: Path) -> None:
    with Loopback(Served(status=400, error=f"the key {SECRET} is no good")) as loopback:
        options = ("--model", "openai:m", "--base-url", get_base_url("openai:", loopback), "--json")
        told = tenfold.run_ok("compact", pi, "--to", "10%", *options)
    assert told.objects[0]["rung"] == "extractive"
    assert SECRET not in told.out
    assert SECRET.encode() not in read_disk(tenfold.store)
    assert "no good" in told.out


def test_a_bare_name_counts_and_calls_nobody(tenfold: Cli, pi: Path) -> None:
    told = tenfold.run_json("compact", pi, "--to", "10%", "--model", "gpt-4o-mini")
    assert told["rung"] == "extractive"
    assert told["spent"].get("calls", 0) == 0


def test_a_bare_name_with_a_base_url_is_a_model_of_that_server(tenfold: Cli, pi: Path) -> None:
    with Loopback(script=make_writer("tenfold")) as loopback:
        base = get_base_url("openai:", loopback)
        told = tenfold.run_json("compact", pi, "--to", "10%", "--model", "qwen2.5:7b", "--base-url", base)
        assert [g.api for g in loopback.requests] == ["chat"]
        assert loopback.requests[0].body["model"] == "qwen2.5:7b"
    assert told["rung"] == "model"


def test_auto_chooses_by_the_agents_model(tenfold: Cli, pi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(script=make_writer("tenfold")) as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        told = tenfold.run_json("compact", pi, "--to", "10%", "--model", "auto", "--model", "gpt-5")
        assert [g.body["model"] for g in loopback.requests] == ["gpt-4o-mini"]
    assert told["spent"]["model"] == "openai:gpt-4o-mini"


def test_a_session_without_a_model_goes_by_the_one_of_the_settings(
    tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asked for --model, although the settings name one, and for --window, although the policy has a default."""
    talk = [{"role": "user" if n % 2 else "assistant", "content": f"{n}: " + "hello " * 900} for n in range(150)]
    file = write_messages(tmp_path / "talk.json", [{"role": "user", "content": "go"}, *talk])
    settings = tmp_path / "tenfold.toml"
    monkeypatch.setenv("TENFOLD_CONFIG", str(settings))
    monkeypatch.delenv("TENFOLD_MODEL", raising=False)
    settings.write_text('[compaction]\nmodel = "openai:gpt-4o-mini"\n')
    with Loopback(script=make_writer("tiers")) as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        told = tenfold.run_json("compact", file)
    assert (told["status"], told["policy"], told["rung"]) == ("compacted", "tiers", "model")
    settings.write_text('[tenfold]\npolicy = "blocks"\n')
    assert tenfold.run_json("compact", file, "--store", ":memory:")["status"] == "compacted"
    for text, table in (
        ("[compaction]\nauto = true\n", "[compaction]"),
        ('[compaction]\n[tenfold]\nmodel = "auto"\n', "[tenfold]"),
        ('[tenfold]\npolicy = "tiers"\n[tenfold.presets.tiers]\nmodel = "auto"\n', "[tenfold.presets.tiers]"),
    ):
        settings.write_text(text)
        (note,) = tenfold.run_json("compact", file, "--to", "10%", "--store", ":memory:")["notes"]
        assert note.startswith("no model was asked for a summary: ")
        assert f'or write the line `model = "openai:gpt-5-mini"` under {table} in {settings}' in note
    settings.write_text("[compaction]\n")
    monkeypatch.setenv("TENFOLD_MODEL", "auto")
    (note,) = tenfold.run_json("compact", file, "--to", "10%", "--store", ":memory:")["notes"]
    assert "or set TENFOLD_MODEL=openai:gpt-5-mini" in note


@pytest.fixture
def documents_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table of the design `tiers` as the document has it, in the settings file."""
    settings = tmp_path / "tenfold.toml"
    settings.write_text('[compaction]\nmodel = ""\nauto = true\nprotected_messages = 12\n')
    monkeypatch.setenv("TENFOLD_CONFIG", str(settings))
    monkeypatch.delenv("TENFOLD_MODEL", raising=False)
    return settings


def test_the_table_of_the_design_tiers_chooses_as_well(
    tenfold: Cli, pi: Path, documents_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert documents_table.is_file()
    with Loopback(script=make_writer("tiers")) as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        told = tenfold.run_json("compact", pi, "--to", "10%", "--model", "gpt-5")
        assert {g.body["model"] for g in loopback.requests} == {"gpt-4o-mini"}
    assert (told["policy"], told["rung"]) == ("tiers", "model")


@pytest.mark.parametrize("name", [each.name for each in sorted(EXAMPLES.iterdir()) if each.suffix[:5] == ".json"])
def test_with_the_documents_table_every_example_is_compacted_without_a_model(
    tenfold: Cli, documents_table: Path, name: str
) -> None:
    """It refused them all: which model their agents had is not recorded, or no provider has it."""
    assert documents_table.is_file()
    told = tenfold.run_json("compact", EXAMPLES / name, "--to", "10%")
    assert (told["status"], told["policy"], told["rung"]) == ("compacted", "tiers", "none")
    assert told["tokens_after"] < told["tokens_before"]
    assert told["notes"][0].startswith("no model was asked for a summary: auto chooses it by the agent's")


def test_a_chosen_model_whose_key_is_missing_leaves_tiers_1_and_2(
    tenfold: Cli, pi: Path, documents_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    told = tenfold.run_json("compact", pi, "--to", "10%", "--model", "claude-sonnet-4-5")
    assert (told["status"], told["rung"], told["spent"].get("calls", 0)) == ("compacted", "none", 0)
    assert "ANTHROPIC_API_KEY" in told["notes"][0]
    named = tenfold("compact", pi, "--to", "10%", "--model", "auto", "--model", "claude-sonnet-4-5")
    assert named.code == 2, "who names it on the command line is told"
    assert "ANTHROPIC_API_KEY" in named.err
    with Loopback(script=make_writer("tiers")) as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        documents_table.write_text('[tenfold]\nfallbacks = ["openai:gpt-4o-mini"]\n[compaction]\n')
        told = tenfold.run_json("compact", pi, "--to", "10%", "--model", "claude-sonnet-4-5", "--store", ":memory:")
    assert told["rung"] == "model", "a fallback that can be asked is asked"


def test_a_named_model_whose_key_is_missing_leaves_tiers_1_and_2(
    tenfold: Cli, pi: Path, documents_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refused the session: the document goes on with its second tier where no model writes."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    documents_table.write_text('[compaction]\nmodel = "haiku"\n')
    told = tenfold.run_json("compact", pi, "--to", "10%")
    assert (told["status"], told["rung"], told["spent"].get("calls", 0)) == ("compacted", "none", 0)
    assert "ANTHROPIC_API_KEY" in told["notes"][0]
    named = tenfold("compact", pi, "--to", "10%", "--model", "anthropic:claude-haiku-4-5")
    assert (named.code, "ANTHROPIC_API_KEY" in named.err) == (2, True), "who names it on the command line is told"
    other = tenfold("compact", pi, "--to", "10%", "--policy", "tail", "--store", ":memory:")
    assert (other.code, "ANTHROPIC_API_KEY" in other.err) == (2, True), "no other policy has a tier that needs no model"


@pytest.mark.parametrize(("policy", "status"), [("tenfold", "compacted"), ("tail", "compacted"), ("tiers", "nothing")])
def test_what_cannot_be_shortened_is_summarized_by_code_or_stays(
    tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, status: str
) -> None:
    """Only `tiers` shows nothing in the place of a summary; the others show what code writes, as without a model."""
    talk = [{"role": "user" if n % 2 else "assistant", "content": f"{n}: " + "hello " * 900} for n in range(50)]
    file = write_messages(tmp_path / "talk.json", [{"role": "user", "content": "go"}, *talk])
    monkeypatch.setenv("TENFOLD_MODEL", "auto")
    told = tenfold.run_json("compact", file, "--to", "30%", "--policy", policy)
    assert told["status"] == status
    assert sum("no model was asked" in note for note in told["notes"]) == 1
    shown = tenfold.run_ok("compact", file, "--to", "30%", "--policy", policy, "--store", ":memory:")
    assert "no model was asked" in shown.out


def test_auto_needs_to_know_the_agents_model(tenfold: Cli, tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hello " * 900}, {"role": "assistant", "content": "well " * 900}]
    ran = tenfold("compact", write_messages(tmp_path / "talk.json", talk), "--to", "10%", "--model", "auto")
    assert ran.code == 2
    assert "--model gpt-5" in ran.err


def test_the_agents_model_and_the_one_that_writes_are_told_apart() -> None:
    both = parse_models(["claude-opus-4-5", "openai:gpt-4o-mini"])
    assert (both.agent_model, both.summary_models) == ("claude-opus-4-5", ("openai:gpt-4o-mini",))
    assert both.choose_agent_model("recorded") == "claude-opus-4-5"
    alone = parse_models(["openai:gpt-4o-mini"])
    assert (alone.choose_agent_model("recorded"), alone.choose_agent_model("")) == ("recorded", "openai:gpt-4o-mini")
    assert parse_models(()).choose_agent_model("") == ""
    with pytest.raises(UsageError):
        parse_models(["one", "two"])


# -- compare -----------------------------------------------------------------------------------------------------------


def read_folder(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_compare_prints_every_policy_and_changes_nothing(tenfold: Cli, chat: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(chat.read_bytes())
    before = read_folder(tmp_path)
    ran = tenfold.run_ok("compact", "--compare", "all", file)
    assert read_folder(tmp_path) == before
    lines = [line.split("\t") for line in ran.out.splitlines()[2:]]
    columns = "policy|summary|before|after|share|messages|calls|price|must-keep facts|valid wires"
    assert lines[0] == columns.split("|")
    assert [row[0] for row in lines[1:]] == list(POLICIES)
    assert {row[2] for row in lines[1:]} == {lines[1][2]}, "all begin with the same conversation"
    assert {row[-1] for row in lines[1:]} == {"all 4"}
    assert ", compacted to 10%; nothing is stored" in ran.out


def test_compare_agrees_with_the_compaction_itself(tenfold: Cli, pi: Path) -> None:
    sizes = ("--to", "12%")
    compared = {o["policy"]: o for o in tenfold.run_ok("compact", pi, "--compare", "all", *sizes, "--json").objects}
    assert set(compared) == set(POLICIES)
    for policy, row in compared.items():
        itself = tenfold.run_json("compact", pi, "--policy", policy, *sizes, "--store", ":memory:")
        for field in ("status", "rung", "tokens_before", "messages_before", "messages_after", "facts", "violations"):
            assert row[field] == itself[field], (policy, field)
        assert abs(row["tokens_after"] - itself["tokens_after"]) < 60, "ids in the summary differ from run to run"


def test_compare_with_a_model_tells_calls_and_price(tenfold: Cli, pi: Path) -> None:
    with Loopback(script=make_writer("tenfold")) as loopback:
        options = ("--model", "openai:gpt-4o-mini", "--base-url", get_base_url("openai:", loopback))
        ran = tenfold.run_ok("compact", pi, "--compare", "tenfold", *options)
        assert len(loopback.requests) == 1
    row = ran.out.splitlines()[3].split("\t")
    assert (row[0], row[1], row[6]) == ("tenfold", "model", "1")
    assert re.fullmatch(r"\$0\.000\d", row[7])
    assert not tenfold.store.exists()


def test_compare_takes_a_window_in_place_of_a_target(tenfold: Cli, pi: Path) -> None:
    (row,) = tenfold.run_ok("compact", pi, "--compare", "tenfold", "--window", "50000", "--json").objects
    itself = tenfold.run_json("compact", pi, "--window", "50000", "--store", ":memory:")
    assert (row["status"], row["target"]) == ("compacted", itself["target"])
    assert "for a window of 50,000" in tenfold.run_ok("compact", pi, "--compare", "tenfold", "--window", "50000").out


def test_compare_passes_over_a_damaged_file_and_says_so_in_its_code(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    ran = tenfold("compact", empty, pi, "--compare", "tenfold,tail", "--json")
    assert ran.code == 3
    assert "empty.jsonl: the file is empty" in ran.err
    assert [row["policy"] for row in ran.objects] == ["tenfold", "tail"]
    assert tenfold("compact", empty, "--compare", "tenfold").code == 3, "alone as well"


def test_compare_says_in_its_code_that_a_compaction_failed(tenfold: Cli, pi: Path) -> None:
    with Loopback(Served(status=400, error="no good")) as loopback:
        options = ("--to", "10%", "--model", "openai:m", "--base-url", get_base_url("openai:", loopback), "--json")
        ran = tenfold("compact", pi, "--compare", "tail,tenfold", *options)
        itself = tenfold("compact", pi, "--policy", "tail", *options)
    assert [row["status"] for row in ran.objects] == ["failed", "compacted"]
    assert ran.code == itself.code == 4


# -- the choice --------------------------------------------------------------------------------------------------------


def test_a_model_that_no_provider_is_known_to_offer_is_not_named_as_one_to_be_asked(tenfold: Cli, pi: Path) -> None:
    ran = tenfold.run_ok("policies", "--model", "unknown-model-x")
    assert "unknown-model-x" not in ran.out
    assert "PROVIDER:NAME" in ran.err
    failed = tenfold("compact", pi, "--to", "10%", "--model", "auto", "--model", "unknown-model-x")
    assert failed.code == 2
    assert "no provider is known to offer unknown-model-x" in failed.err


def test_policies_print_the_choice_of_the_summary_model_and_why(tenfold: Cli) -> None:
    ran = tenfold.run_ok("policies", "--model", "openai:gpt-5")
    assert "openai:gpt-4o-mini\topenai's row, gpt-4o-mini, is listed" in ran.out
    assert "openai:gpt-5\tthe session's model, if that one fails" in ran.out
    local = tenfold.run_ok("policies", "--model", "ollama:llama3", "--json").objects[0]["summaries"]
    assert [c["model"] for c in local] == ["ollama:llama3"]
    assert "summaries" not in tenfold.run_ok("policies", "--json").objects[0]


@pytest.mark.parametrize(
    ("model", "fallback", "named"),
    [
        ("groq:mine", "openai:other", ["groq:mine", "openai:other"]),
        ("auto", "groq:mine", ["openai:gpt-4o-mini", "openai:gpt-5", "groq:mine"]),
    ],
)
def test_configured_models_come_first_and_auto_is_what_it_stands_for(
    tenfold: Cli, monkeypatch: pytest.MonkeyPatch, model: str, fallback: str, named: list[str]
) -> None:
    monkeypatch.setenv("TENFOLD_MODEL", model)
    monkeypatch.setenv("TENFOLD_FALLBACKS", fallback)
    told = tenfold.run_ok("policies", "--model", "openai:gpt-5", "--json").objects[0]["summaries"]
    assert [c["model"] for c in told] == named
    assert told[-1]["why"] == "configured as a fallback"


def test_a_configured_model_without_a_provider_is_the_one_that_is_told_to_have_none(
    tenfold: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_MODEL", "no-such-model")
    ran = tenfold.run_ok("policies", "--model", "openai:gpt-5")
    assert "no provider is known to offer no-such-model" in ran.err
    assert "gpt-5" not in ran.err
    monkeypatch.setenv("TENFOLD_MODEL", "haiku")
    assert "anthropic:claude-haiku-" in tenfold.run_ok("policies", "--model", "openai:gpt-5").out


def test_the_command_works_without_the_extra_until_a_model_is_named(tmp_path: Path, pi: Path) -> None:
    """As after a plain `pip install tenfold`: pydantic-ai and genai-prices are not there."""
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('pydantic_ai', 'genai_prices', 'openai', 'anthropic')))\n"
        "from tenfold.apps.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    env = os.environ | {"TENFOLD_STORE": str(tmp_path / "store.db")}

    def run_without_extra(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=500)

    assert run_without_extra("compact", pi, "--to", "10%").returncode == 0
    without = run_without_extra("compact", pi, "--to", "10%", "--model", "openai:gpt-4o-mini")
    assert without.returncode == 2
    assert "pip install 'tenfold[models]'" in without.stderr
    settings = tmp_path / "tenfold.toml"
    settings.write_text("[compaction]\n")
    env |= {"TENFOLD_CONFIG": str(settings)}
    chosen = run_without_extra(
        "compact", pi, "--to", "10%", "--json", "--model", "claude-sonnet-4-5", "--store", ":memory:"
    )
    assert chosen.returncode == 0, chosen.stderr
    assert "pip install 'tenfold[models]'" in chosen.stdout
    assert "pip install 'tenfold[models]'" in run_without_extra("policies", "--model", "gpt-5").stderr
