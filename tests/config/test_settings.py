"""Settings as a user writes them: what each key does, what comes before what, and what a mistake says."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import fields

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import Draft, Goal
from tenfold.compaction.trigger.limits import Limits
from tenfold.config.policies import POLICIES
from tenfold.config.settings import (
    ENVIRONMENT_KEYS,
    CommonSettings,
    Config,
    LivePolicy,
    build_policy,
    get_preset_settings,
    load_settings,
)
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.errors import BadInput, UsageError
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import make_work
from tests.shape.scan import ROOT

COUNTER = CharacterCounter()


def write_settings(folder: Path, text: str) -> Path:
    path = folder / "tenfold.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read_settings(folder: Path, text: str, **environ: str) -> Config:
    """The settings of a file with this text, under these variables."""
    return load_settings(write_settings(folder, text), environ=environ)


class Nothing:
    """A stage that does nothing: named from settings as `tests.config.test_settings:Nothing`."""

    name = "nothing"
    structural = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the protocol's signature
        return draft


class Always(Struct, frozen=True):
    """A trigger that always fires."""

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002 - the protocol's
        none = ProviderTokens(0)
        return Limits(none, ProviderTokens(window), ProviderTokens(1), none)


class Words(Struct, frozen=True):
    """A counter of words."""

    name: str = "words"

    def count(self, texts: list[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def test_without_a_file_everything_is_as_published(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        config = load_settings(environ={})
    assert config.build_policy(COUNTER).name == "tenfold"
    assert config.build_policy(COUNTER).trigger == POLICIES["tenfold"](COUNTER).trigger
    assert config.build_policy(COUNTER).summary.models == ()


@pytest.mark.parametrize("name", POLICIES)
def test_every_preset_comes_with_its_prompts_and_models(name: str) -> None:
    policy = build_policy(name, COUNTER, models=("a:one", "b:two"))
    assert policy.name == POLICIES[name](COUNTER).name
    assert policy.summary.models == ("a:one", "b:two")
    assert policy.summary.system
    assert policy.summary.first


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    text = '[tenfold]\npolicy = "tenfold"\nmodel = "a:file"\nfallbacks = ["b:file"]\nfocus = "tests"\n'
    named = {"TENFOLD_MODEL": "a:env", "TENFOLD_FALLBACKS": "b:env, c:env", "TENFOLD_AUTO": "off"}
    policy = read_settings(tmp_path, text, **named).build_policy(COUNTER)
    assert policy.summary.models == ("a:env", "b:env", "c:env")
    assert policy.summary.instructions == "tests"
    assert not policy.auto
    assert read_settings(tmp_path, text).build_policy(COUNTER).summary.models == ("a:file", "b:file")


def test_the_file_says_of_tools_whether_they_change_the_world(tmp_path: Path) -> None:
    text = '[tenfold]\nacting_tools = ["get_lock"]\nlookup_tools = ["run_report", "sum_up"]\n'
    tools = read_settings(tmp_path, text).build_policy(COUNTER).summary.tools
    assert (tools.acting, tools.lookups) == (("get_lock",), ("run_report", "sum_up"))


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    path = write_settings(tmp_path, '[tenfold]\nfocus = "from there"\n')
    assert load_settings(environ={"TENFOLD_CONFIG": str(path)}).common.focus == "from there"
    with pytest.raises(BadInput, match="cannot be read"):
        load_settings(environ={"TENFOLD_CONFIG": str(tmp_path / "missing.toml")})


INSTANCES = """
[tenfold]
model = "a:one"
focus = "everything"
auto = false
[tenfold.presets.clip]
focus = "ports"
model = "a:clip"
[tenfold.presets.careful]
policy = "tenfold"
focus = "the migration"
[tenfold.presets.bold]
policy = "tenfold"
auto = true
[tenfold.presets.mine]
policy = "clip"
model = "a:mine"
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("careful", ("the migration", False, ("a:one",))),
        ("bold", ("everything", True, ("a:one",))),
        ("mine", ("ports", False, ("a:mine",))),
        ("tail", ("everything", False, ("a:one",))),
    ],
)
def test_a_named_instance_falls_through_to_its_presets_table_and_then_to_the_defaults(
    tmp_path: Path, name: str, expected: tuple[str, bool, tuple[str, ...]]
) -> None:
    policy = read_settings(tmp_path, INSTANCES).build_policy(COUNTER, name)
    assert (policy.summary.instructions, policy.auto, policy.summary.models) == expected
    assert read_settings(tmp_path, INSTANCES, TENFOLD_POLICY=name).build_policy(COUNTER) == policy


def test_a_flag_is_held_against_the_sizes_of_the_policy_in_force_alone(tmp_path: Path) -> None:
    path = write_settings(tmp_path, "[tenfold.presets.tail]\ncompact_at = 20_000\n")
    config = load_settings(path, environ={}, flags={"down_to": 30_000})
    assert config.get_common().down_to == 30_000
    with pytest.raises(UsageError, match="down_to has to be at most four fifths"):
        config.get_common("tail")


KNOBS = [
    (name, knob) for name, make in POLICIES.items() for knob, kind in get_preset_settings(make).items() if kind is int
]


@pytest.mark.parametrize(("name", "knob"), KNOBS)
def test_a_preset_s_own_settings_reach_its_policy(tmp_path: Path, name: str, knob: str) -> None:
    text = f"[tenfold.presets.{name}]\n{knob} = 7\n\n[tenfold.presets.mine]\npolicy = '{name}'\n"
    config = read_settings(tmp_path, text)
    expected = POLICIES[name](COUNTER, **{knob: 7})
    for made in (config.build_policy(COUNTER, name), config.build_policy(COUNTER, "mine")):
        assert (made.trigger, made.stages, made.writer) == (expected.trigger, expected.stages, expected.writer)
        assert made.shares == expected.shares


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tenfold]\npolcy = 'tail'\n", r"no setting 'polcy': did you mean 'policy'\?"),
        ("[tenfold]\npolicy = 'tenfolt'\n", r"no policy is called 'tenfolt': did you mean 'tenfold'\?"),
        ("[tenfold.presets.tenfolt]\nauto = true\n", r"which one it is: did you mean 'tenfold'\?"),
        ("[tenfold.presets.tenfold]\nautp = true\n", r"tenfold has no setting 'autp': did you mean 'auto'\?"),
        ("[tenfold]\nauto = 'perhaps'\n", r"Expected `bool`, got `str`"),
        ("[tenfold]\npresets = 3\n", "holds tables"),
        ("[tenfodl]\npolicy = 'tail'\n", r"no table \[tenfodl\]: did you mean 'tenfold'\?"),
        ("[tenfold.presets.careful]\nfocus = 'x'\n", r"\[tenfold.presets.careful\] .* does not say with `policy`"),
        ("[tenfold]\nstages = ['nowhere']\n", "no package publishes 'nowhere' among the stages"),
        ("[tenfold]\nstages = ['tests.config.test_settings:COUNTER']\n", "it has no structural, apply"),
        ("[tenfold]\ntrigger = 'tests.nowhere:It'\n", "cannot be loaded"),
    ],
)
def test_a_mistake_names_the_place_and_the_nearest_valid_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_settings(tmp_path, text).build_policy(COUNTER)


def test_a_file_that_is_no_toml_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not TOML"):
        read_settings(tmp_path, "[tenfold\n")


def test_a_user_s_own_parts_are_named_in_the_settings(tmp_path: Path) -> None:
    here = "tests.config.test_settings"
    text = f"[tenfold]\nstages = ['{here}:Nothing']\ntrigger = '{here}:Always'\ncounter = '{here}:Words'\n"
    policy = read_settings(tmp_path, text).build_policy(COUNTER)
    assert [s.name for s in policy.stages[:2]] == ["nothing", POLICIES["tenfold"](COUNTER).stages[0].name]
    assert policy.trigger == Always()
    assert policy.counter.name == "words"


def test_a_change_in_the_file_applies_at_the_next_check(tmp_path: Path) -> None:
    path = write_settings(tmp_path, "[tenfold]\nauto = false\n")
    told: list[str] = []
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), LivePolicy(COUNTER, path, environ={}, report=told.append)
    )
    session.append(*make_work(40))
    small = sum(session.conversation.get_message_sizes().values()) + 100
    outcome = session.compact(window=small)
    assert (outcome.status, "switched off" in outcome.reason) == ("nothing", True)

    path.write_text("[tenfold]\nauto = maybe\n", encoding="utf-8")
    assert session.compact(window=small).status == "nothing"
    assert len(told) == 1
    assert "stay in force" in told[0]
    session.compact(window=small)
    assert len(told) == 1

    path.write_text("[tenfold]\nauto = true # at last\n", encoding="utf-8")
    assert session.compact(window=small).status == "compacted"


def test_a_provider_callback_is_asked_at_every_check() -> None:
    asked: list[int] = []

    def provide_policy() -> Policy:
        asked.append(1)
        return build_policy("tenfold", COUNTER)

    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), provide_policy)
    before = len(asked)
    session.compact(window=1_000_000)
    assert len(asked) > before


PAGE = (ROOT / "docs" / "settings.md").read_text("utf-8")


def test_the_page_names_every_key_and_every_variable() -> None:
    for key in (
        *(field.name for field in fields(CommonSettings)),
        *(f"TENFOLD_{key.upper()}" for key in (*ENVIRONMENT_KEYS, "config")),
    ):
        assert f"`{key}`" in PAGE, key


def test_the_example_of_the_page_is_read_as_it_says(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    config = read_settings(tmp_path, example)
    assert config.build_policy(COUNTER).name == "tenfold"
    careful = config.build_policy(COUNTER, "careful")
    assert (careful.name, careful.summary.instructions) == ("tenfold", "the database migration")
    assert careful.summary.models == ("anthropic:claude-haiku-4-5", "openai:gpt-4o-mini")


class Needy:
    """A part that cannot be made without an argument."""

    def __init__(self, place: str) -> None:
        self.place = place


def test_a_part_that_cannot_be_made_or_read_is_an_error_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needy = read_settings(tmp_path, "[tenfold]\nstages = ['tests.config.test_settings:Needy']\n")
    with pytest.raises(UsageError, match=r"test_settings:Needy' among the stages cannot be made: .*place"):
        needy.build_policy(COUNTER)
    (tmp_path / "half_written.py").write_text("class Shelf:\n    def write(self", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="cannot be loaded"):
        read_settings(tmp_path, "[tenfold]\narchive = 'half_written:Shelf'\n").load_archive()
