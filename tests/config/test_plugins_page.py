"""docs/plugins.md as it is printed, and parts found as entry points of an installed package."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenfold.apps.cli.store_access import open_session
from tenfold.compaction.engine.policy import Policy
from tenfold.config.plugins import PLUGIN_KINDS, list_plugins, load_plugin
from tenfold.config.settings import build_policy, load_settings
from tenfold.core.meter.counters import CharacterCounter
from tenfold.designs.clip import ArchiveRecord
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.session.compactor import Archive
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import get_blocks, make_work
from tests.shape.scan import ROOT

PAGE = ROOT / "docs" / "plugins.md"
WIRES = ("anthropic", "openai-chat", "openai-responses", "gemini")


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """What the page defines."""
    names: dict[str, Any] = {"__name__": "printed"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours, and running it is the point
    return names


def test_the_printed_policy_acts_at_its_own_size_and_counts_its_own_way(printed: dict[str, Any]) -> None:
    policy = printed["policy"]
    assert isinstance(policy, Policy)
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy)
    while session.take_reading(window=1_000_000).tokens < 8_000:
        session.append(*make_work(2, start=session.view.length, words=40))
        assert session.compact(window=1_000_000).status == "nothing"
    while session.compact(window=1_000_000).status == "nothing":
        session.append(*make_work(4, start=session.view.length, words=40))
    (block,) = get_blocks(session)
    assert block.counter == "words"
    assert block.tokens_before > 10_000 // 2
    assert block.tokens_after <= 4_000
    assert all(session.conversation.find_violations(wire) == () for wire in WIRES)
    held = [line.message for line in session.expand(block.id, deep=True)]
    session.undo()
    shown = session.view.get_messages()
    assert all(message in shown for message in held)


def test_the_printed_trigger_acts_by_the_number_of_entries_whatever_the_size(printed: dict[str, Any]) -> None:
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), printed["forty"](CharacterCounter()))
    check = replace(session.compactor.build_call(window=1_000_000), demand="check")
    while session.view.length <= 40:
        assert session.compact(check).status == "nothing"
        session.append(*make_work(2, start=session.view.length, words=40))
    outcome = session.compact(check)
    assert outcome.status == "compacted"
    assert "entries have come" in outcome.reason
    assert session.compact(check).status == "nothing"


def test_the_printed_archive_gets_every_batch(printed: dict[str, Any]) -> None:
    shelf = printed["shelf"]
    kept: dict[str, ArchiveRecord] = shelf.memory.kept
    assert isinstance(shelf, Archive)
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), build_policy("clip", CharacterCounter()), archive=shelf
    )
    session.append(*make_work(40))
    assert session.compact(to=4_000).status == "compacted"
    (block,) = get_blocks(session)
    assert [r.batch for r in kept.values()] == list(block.batches)
    assert all(r.id.startswith(block.id) for r in kept.values())


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a package that publishes parts, on the import path while a test runs."""
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    (tmp_path / "my_parts.py").write_text(code, encoding="utf-8")
    meta = tmp_path / "my_parts-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n", encoding="utf-8")
    points = {"triggers": "ten = my_parts:EveryTenThousand", "counters": "words = my_parts:Words"}
    lines = "\n".join(f"[tenfold.{kind}]\n{line}\n" for kind, line in points.items())
    (meta / "entry_points.txt").write_text(lines, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_parts", None)


def test_an_archive_is_named_in_the_settings_and_the_command_uses_it(installed: Path) -> None:
    file = installed / "tenfold.toml"
    file.write_text(
        '[tenfold]\npolicy = "mine"\n[tenfold.presets.clip]\narchive = "my_parts:shelf"\n'
        '[tenfold.presets.mine]\npolicy = "clip"\n[tenfold.presets.other]\npolicy = "clip"\narchive = "nobody"\n',
        encoding="utf-8",
    )
    config = load_settings(file, environ={})
    shelf = config.load_archive()
    assert isinstance(shelf, Archive)
    assert config.load_archive("tenfold") is None
    with pytest.raises(UsageError, match="no package publishes 'nobody' among the archives"):
        config.load_archive("other")
    store = SqliteStore(":memory:")
    Session.create(SessionAddress(store, "s"), config.build_policy(CharacterCounter())).append(*make_work(40))
    (row,) = store.list_sessions("default")
    session = open_session(store, row, config=config)
    assert session.compact(to=4_000).status == "compacted"
    (block,) = get_blocks(session)
    kept: dict[str, ArchiveRecord] = getattr(session.compactor.archive, "memory").kept  # noqa: B009 - the page's own
    assert [r.batch for r in kept.values()] == list(block.batches) != []
    assert open_session(store, row, config=config, policy="tenfold").compactor.archive is None


def test_an_installed_package_s_parts_are_found_by_name(installed: Path) -> None:
    assert list_plugins("triggers")["ten"] == "my_parts:EveryTenThousand"
    file = installed / "tenfold.toml"
    file.write_text('[tenfold]\ntrigger = "ten"\ncounter = "words"\n', encoding="utf-8")
    policy = load_settings(file, environ={}).build_policy(CharacterCounter())
    assert type(policy.trigger).__name__ == "EveryTenThousand"
    assert policy.counter.name == "words"
    with pytest.raises(UsageError, match="did you mean 'ten'"):
        load_plugin("triggers", "tenn")


def test_every_kind_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [kind for kind in PLUGIN_KINDS if f"`tenfold.{kind}`" not in page] == []
