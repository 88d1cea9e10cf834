"""Every other command, in the order a person would use them."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenfold.config.policies import POLICIES
from tenfold.core.record.message import get_text
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as LogPath
from tenfold.core.view.rules import validate
from tenfold.formats import ParsedSession, read_file
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import EXAMPLES, Cli, write_messages

IN_VIEW_NO_MORE = "lineterminator"


@pytest.fixture
def stored(tenfold: Cli, pi: Path) -> str:
    """A stored session with one compaction in force."""
    found: str = tenfold.run_json("compact", pi, "--to", "10%")["session"]
    return found


def test_sessions_lists_the_newest_first(tenfold: Cli, pi: Path, chat: Path) -> None:
    assert "no session in" in tenfold.run_ok("sessions").out
    assert not tenfold.store.exists(), "looking makes no store"
    tenfold.run_ok("compact", pi, chat, "--to", "10%")
    lines = tenfold.run_ok("sessions").out.splitlines()
    assert [line.split("\t")[1] for line in lines] == ["format", "openai-chat", "pi"]
    objects = tenfold.run_ok("sessions", "--json").objects
    assert [(o["format"], o["entries"], o["blocks"]) for o in objects] == [("openai-chat", 301, 1), ("pi", 213, 1)]
    assert objects[0]["file"] == str(chat)


def test_show_tells_what_the_model_sees_and_with_all_what_it_does_not(tenfold: Cli, stored: str) -> None:
    shown = tenfold.run_json("show", stored)
    assert shown["tokens_in_view"] < shown["tokens"]
    assert len(shown["blocks"]) == 1
    assert sum(row["tokens"] for row in shown["timeline"]) == shown["tokens_in_view"]
    assert any(row["seen"] == "summary" and "tenfold-summary" in row["text"] for row in shown["timeline"])
    whole = tenfold.run_json("show", stored, "--all")["timeline"]
    originals = [row["id"] for row in whole if row["seen"] != "summary"]
    assert len(originals) == len(set(originals)) == shown["messages"] == 212
    assert [row for row in whole if row["seen"] != "hidden"] == shown["timeline"]
    exchanges = [row["place"] for row in whole if row["role"] == "user" and row["seen"] != "summary"]
    assert exchanges == [str(n) for n in range(1, len(exchanges) + 1)]


def test_rules_are_listed_added_and_dropped(tenfold: Cli, stored: str) -> None:
    before = tenfold.run_ok("rules", stored, "--json").objects
    whole = "Never drop a row. Mend it or flag it, and the flag must say what was done."
    assert whole in [each["text"] for each in before]
    after = tenfold.run_ok("rules", stored, "--add", "Keep every file in ASCII.", "--json").objects
    assert [each["text"] for each in after] == [*(each["text"] for each in before), "Keep every file in ASCII."]
    number = next(each["number"] for each in after if each["text"].startswith("Never drop a row."))
    lines = tenfold.run_ok("rules", stored, "--drop", str(number)).out
    assert "Keep every file in ASCII. (active" in lines
    assert "Never drop a row." not in lines
    assert "must say what was done. (dropped" in tenfold.run_ok("rules", stored, "--all").out
    assert tenfold("rules", stored, "--drop", "99").code == 2


def test_show_reads_well_in_a_pipe(tenfold: Cli, stored: str) -> None:
    lines = tenfold.run_ok("show", stored[:13], "--brief").out.splitlines()
    assert lines[0] == f"session {stored}"
    assert "212 messages, 52,296 tokens" in lines[2]
    assert "id\tnumber\tstep\twho\ttokens\tseen\ttext" in lines
    assert tenfold.run_ok("show", "--brief").out.splitlines() == lines


def test_search_finds_what_no_view_shows_and_expand_gives_it_back_exactly(tenfold: Cli, stored: str, pi: Path) -> None:
    view = json.dumps(tenfold.run_json("show", stored))
    assert IN_VIEW_NO_MORE not in view
    hits = tenfold.run_ok("search", IN_VIEW_NO_MORE, "--session", stored, "--json").objects
    assert hits
    assert all(hit["session"] == stored and IN_VIEW_NO_MORE in hit["snippet"] for hit in hits)
    found = [tenfold.run_json("expand", hit["entry"])["text"] for hit in hits]
    originals = {get_text(m) for m in View.from_path(LogPath(read_file(pi)[0].entries)).get_messages()}
    assert set(found) <= originals
    assert any(IN_VIEW_NO_MORE in text for text in found)
    assert "no message has 'xyzzy plugh'" in tenfold.run_ok("search", "xyzzy", "plugh").out


def test_search_prints_few_excerpts_with_their_lines_and_numbers_that_expand_takes(tenfold: Cli, stored: str) -> None:
    out = tenfold.run_ok("search", "warehouse", "report").out
    heads = [line for line in out.splitlines() if f"session {stored[:8]}" in line]
    assert 1 < len(heads) <= 5
    assert len(out.splitlines()) > 3 * len(heads), "excerpts keep their lines"
    assert "`tenfold expand NUMBER --session ID`" in out
    for head in heads:
        number = int(head.split()[0])
        one = tenfold.run_json("expand", str(number))
        assert one["position"] == number
        assert one["entry"][-8:] in head or one["entry"][:8] in head
    around = tenfold.run_ok("expand", "26", "--session", stored, "--around", "1", "--json").objects
    assert [line["position"] for line in around] == [25, 26, 27]
    beyond = tenfold("expand", "99999")
    assert beyond.code != 0
    assert "numbered from 0" in beyond.err


def test_expand_walks_one_level_or_all_the_way(tenfold: Cli, pi: Path) -> None:
    session = tenfold.run_json("compact", pi, "--to", "30%")["session"]
    block = tenfold.run_json("compact", pi, "--to", "8%")["block"]
    one = tenfold.run_ok("expand", block, "--json").objects
    every = tenfold.run_ok("expand", block, "--depth", "all", "--json").objects
    assert any(not line["original"] for line in one), "one level down stands what the older Block showed"
    assert all(line["original"] for line in every)
    assert len({line["entry"] for line in every}) == len(every)
    hidden = {row["id"] for row in tenfold.run_json("show", session, "--all")["timeline"] if row["seen"] == "hidden"}
    assert hidden <= {line["entry"] for line in every}
    assert tenfold("expand", block, "--depth", "some").code == 2


def test_expand_is_bounded_on_request_and_says_what_is_left(tenfold: Cli, stored: str) -> None:
    block = tenfold.run_json("diff", stored)["block"]
    whole = tenfold.run_ok("expand", block, "--depth", "all").out
    cut = tenfold.run_ok("expand", block, "--depth", "all", "--limit", "5000").out
    assert len(cut) < 6_500 < len(whole)
    assert "--limit 0 prints all" in cut
    assert tenfold.run_ok("expand", block, "--depth", "all", "--limit", "0").out == whole


def test_diff_marks_the_facts_that_are_in_view_and_those_that_are_not(tenfold: Cli, pi: Path) -> None:
    outcome = tenfold.run_json("compact", pi, "--to", "10%")
    told = tenfold.run_json("diff", outcome["session"])
    assert told["block"] == outcome["block"]
    must = [f for f in told["facts"] if f["must_keep"]]
    others = [f for f in told["facts"] if not f["must_keep"]]
    assert {f["state"] for f in must} == {"in view"}
    assert len(must) == sum(total for kind, (_, total) in outcome["facts"].items() if kind in {f["kind"] for f in must})
    assert {"in view", "not in view"} <= {f["state"] for f in others}
    view = json.dumps([r["text"] for r in tenfold.run_json("show", outcome["session"])["timeline"]])
    for fact in others:
        if fact["state"] == "not in view":
            assert json.dumps(fact["text"])[1:-1] not in view
    plain = tenfold.run_ok("diff", outcome["session"]).out
    assert f"must-keep facts in view: {len(must)} of {len(must)}" in plain
    assert sum(line.startswith("- ") for line in plain.splitlines()) >= len(told["hidden"])


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_diff_lists_every_message_that_the_block_took_out_of_view(tenfold: Cli, pi: Path, policy: str) -> None:
    session = tenfold.run_json("compact", pi, "--to", "10%", "--policy", policy)["session"]
    rows = [row for row in tenfold.run_json("show", session, "--all")["timeline"] if row["seen"] != "summary"]
    gone = {row["id"] for row in rows if row["seen"] != "as it was"}
    assert gone
    assert {line["entry"] for line in tenfold.run_json("diff", session)["hidden"]} == gone
    assert f", {len(rows) - len(gone)} messages stay as they were, {len(gone)} " in tenfold.run_ok("diff", session).out


def test_diff_names_the_batches_so_that_they_can_be_expanded(tenfold: Cli, pi: Path) -> None:
    outcome = tenfold.run_json("compact", pi, "--to", "10%", "--policy", "clip")
    batches = tenfold.run_json("diff", outcome["session"])["batches"]
    assert len(batches) > 1
    plain = tenfold.run_ok("diff", outcome["session"]).out
    assert f"batches: {batches[0]} to {batches[-1]}; `tenfold expand` prints" in plain
    for batch in batches:
        told = [line["entry"] for line in tenfold.run_ok("expand", batch, "--json").objects]
        assert told, "each opens"
        assert batch not in told
    other = tenfold.run_json("compact", pi, "--to", "5%")
    assert tenfold.run_json("diff", other["session"])["batches"] == []


def test_diff_has_nothing_to_compare_before_a_compaction(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("compact", pi, "--window", "200000")
    ran = tenfold("diff", "last")
    assert ran.code == 2
    assert "no compaction in force" in ran.err


def test_a_session_of_the_chat_is_named_by_the_first_words_and_an_empty_one_is_not_listed(tenfold: Cli) -> None:
    """Such rows had neither title nor file, and `last` was what a killed chat had left behind."""
    tenfold.run_ok("run", "--model", "demonstration", "--task", "Find the\nprices that end in .99")
    with closing(SqliteStore(tenfold.store)) as store:
        store.create(DEFAULT_NAMESPACE, SessionInfo("empty", client="tenfold"))
    (row,) = tenfold.run_ok("sessions", "--json").objects
    assert row["title"] == "Find the prices that end in .99"
    assert tenfold.run_ok("sessions").out.splitlines()[1].endswith("\tFind the prices that end in .99")
    assert tenfold.run_json("show", "last")["session"] == row["session"]


def test_one_of_a_thing_is_not_called_several(tenfold: Cli, stored: str) -> None:
    del stored
    assert tenfold.run_ok("verify").out == "1 session verified, no problems\n"
    assert "1 namespace, 1 session, " in tenfold.run_ok("store", "check").out
    tenfold.run_ok("search", "csv")
    assert "every entry is indexed" in tenfold("doctor").out
    assert "`tenfold keys create" in tenfold.run_ok("audit").out
    assert "the best 2 of what was found" in tenfold.run_ok("search", "csv", "--limit", "2").out


def test_undo_gives_the_view_back_and_keeps_the_log(tenfold: Cli, pi: Path) -> None:
    session = tenfold.run_json("compact", pi, "--to", "30%")["session"]
    before = tenfold.run_json("show", session)
    tenfold.run_ok("compact", pi, "--to", "10%")
    told = tenfold.run_json("undo", session)
    assert told["tokens_after"] == before["tokens_in_view"] > told["tokens_before"]
    assert tenfold.run_json("show", session)["timeline"] == before["timeline"]
    assert tenfold.run_ok("undo", "last").out.startswith("undone: block ")
    assert tenfold.run_ok("export", session, "--view").out.encode() == pi.read_bytes()
    ran = tenfold("undo", session)
    assert ran.code == 2
    assert "nothing to undo" in ran.err
    tenfold.run_ok("verify")


def test_undo_of_an_older_compaction_takes_those_along_that_build_on_it(tenfold: Cli, pi: Path) -> None:
    session = tenfold.run_json("compact", pi, "--to", "30%")["session"]
    first = tenfold.run_json("show", session)["blocks"][0]["block"]
    tenfold.run_ok("compact", pi, "--to", "10%")
    second = tenfold.run_json("show", session)["blocks"][-1]["block"]
    told = tenfold.run_json("undo", session, "--block", first)
    assert [told["undone"], told["undone_with_it"]] == [first, [second]]
    assert tenfold.run_ok("export", session, "--view").out.encode() == pi.read_bytes()
    ran = tenfold("undo", session, "--block", first)
    assert ran.code == 2
    assert "nothing to undo" in ran.err


def test_undo_of_a_fresh_compaction_brings_back_what_it_had_set_aside(tenfold: Cli, pi: Path) -> None:
    """It said that the model saw what it saw before, and the model saw all originals."""
    session = tenfold.run_json("compact", pi, "--to", "30%")["session"]
    tenfold.run_ok("compact", pi, "--to", "15%")
    before, seen = tenfold.run_json("show", session), tenfold.run_ok("export", session, "--view").out
    facts = tenfold.run_json("diff", session)["facts"]
    tenfold.run_ok("compact", pi, "--to", "8%", "--fresh")
    told = tenfold.run_ok("undo", session).out
    now = tenfold.run_json("show", session)
    assert now["tokens_in_view"] == before["tokens_in_view"]
    assert f"; the model sees {len(now['timeline'])} messages, {now['tokens_in_view']:,} tokens again\n" in told
    assert told.count("in force again: block ") == 2
    assert " -> " not in told, "the model does not see the originals"
    assert strip_ids(tenfold.run_ok("export", session, "--view").out) == strip_ids(seen)
    assert tenfold.run_json("diff", session)["facts"] == facts
    assert tenfold.run_json("undo", session)["restored"] == [], "what is undone by hand is not brought back"
    tenfold.run_ok("verify")


def test_a_fresh_compaction_that_does_not_come_about_leaves_the_earlier_one_in_force(tenfold: Cli, pi: Path) -> None:
    session = tenfold.run_json("compact", pi, "--to", "10%")["session"]
    before = tenfold.run_json("show", session)
    out = tenfold.run_json("compact", pi, "--window", "9000000", "--fresh")
    assert out["status"] == "nothing"
    assert "the earlier compaction is in force again" in out["notes"]
    assert tenfold.run_json("show", session)["tokens_in_view"] == before["tokens_in_view"]


def test_a_rule_is_still_new_to_a_compaction_that_is_brought_back(tenfold: Cli, pi: Path) -> None:
    session = tenfold.run_json("compact", pi, "--to", "30%")["session"]
    tenfold.run_ok("rules", session, "--add", "Always write tests first, dear Tom.")
    tenfold.run_ok("compact", pi, "--to", "10%")
    tenfold.run_ok("undo", session)
    assert "dear Tom" not in tenfold.run_ok("export", session, "--view").out
    tenfold.run_ok("compact", pi, "--to", "30%")
    assert "dear Tom" in tenfold.run_ok("export", session, "--view").out


def strip_ids(text: str) -> str:
    """Removes what tells a copy of a Block from the Block."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{22}", "ID", text)


def test_sizes_are_shown_as_the_provider_counts_them(tenfold: Cli, tmp_path: Path) -> None:
    """Old Blocks were shown by the counter, beside a line with what the provider counts."""
    said = {"role": "user", "content": [{"type": "text", "text": "Go on. " + "All of it went well. " * 400}]}
    lines: list[dict[str, object]] = [{"type": "session", "id": "s", "cwd": "/w", "version": 1}]
    for tokens in range(40_000, 100_000, 10_000):
        usage = {"input": tokens, "output": 9, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens + 9}
        text = [{"type": "text", "text": "Done."}]
        about = {"role": "assistant", "model": "gpt-4o", "provider": "openai", "stopReason": "stop"}
        answer = {**about, "content": text, "usage": usage}
        lines += [{"type": "message", "message": said}, {"type": "message", "message": answer}]
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    outcome = tenfold.run_json("compact", file, "--window", "100000")
    assert outcome["status"] == "compacted"
    sizes = f"{outcome['tokens_before']:,} -> {outcome['tokens_after']:,} tokens"
    assert tenfold.run_json("show", "last")["tokens_in_view"] < outcome["tokens_after"], "two units"
    assert sizes in tenfold.run_ok("show", "last").out
    assert sizes in tenfold.run_ok("diff", "last").out
    assert f"{outcome['tokens_after']:,} -> {outcome['tokens_before']:,} tokens" in tenfold.run_ok("undo", "last").out


def test_a_message_is_pinned_by_its_number_and_a_hidden_one_says_how(tenfold: Cli, pi: Path) -> None:
    """The refusal of a hidden message only said that it was not in view."""
    session = tenfold.run_json("compact", pi, "--to", "30%")["session"]
    rows = tenfold.run_json("show", session, "--all")["timeline"]
    hidden = next(row for row in rows if row["seen"] == "hidden" and row["role"] == "tool")
    number = str(hidden["position"])
    assert f"\t{number}\t" in tenfold.run_ok("show", session, "--all").out
    tenfold.run_ok("compact", pi, "--to", "10%")
    refused = tenfold("pin", number, "--session", session)
    assert refused.code == 2
    undo = re.search(r"`tenfold (undo \S+ --block \S+)`", refused.err)
    assert undo is not None
    assert "rules" in refused.err
    tenfold.run_ok(*undo[1].split())
    assert tenfold.run_json("pin", number, "--session", session)["entry"] == hidden["id"]
    tenfold.run_ok("compact", pi, "--to", "10%")
    (row,) = [r for r in tenfold.run_json("show", session)["timeline"] if r["id"] == hidden["id"]]
    assert (row["seen"], row["pinned"]) == ("as it was", True)
    assert tenfold.run_json("unpin", number)["pinned"] is False


def test_a_pinned_message_stays_through_every_compaction(tenfold: Cli, pi: Path) -> None:
    session = tenfold.run_json("compact", pi, "--window", "200000")["session"]
    rows = tenfold.run_json("show", session)["timeline"]
    entry = next(row["id"] for row in rows if row["role"] == "tool" and 200 < row["tokens"] < 800)
    assert tenfold.run_json("pin", entry)["pinned"] is True
    tenfold.run_ok("compact", pi, "--to", "10%")
    (row,) = [r for r in tenfold.run_json("show", session)["timeline"] if r["id"] == entry]
    assert (row["seen"], row["pinned"]) == ("as it was", True)
    assert tenfold.run_ok("unpin", entry).out.startswith("unpinned: ")
    tenfold.run_ok("compact", pi, "--to", "7%")
    assert entry not in {r["id"] for r in tenfold.run_json("show", session)["timeline"] if r["seen"] == "as it was"}
    assert tenfold("unpin", entry).code == 2
    assert tenfold("pin", "ffff").code == 2


def get_results(recorded: ParsedSession) -> list[str]:
    """The outputs of tools, in order, without the mark that a failed one gets where the wire has no field for it."""
    return [
        get_text(m).removeprefix("[tool error]\n")
        for m in View.from_path(LogPath(recorded.entries)).get_messages()
        if m.role == "tool"
    ]


@pytest.mark.costly(2)
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json*")), ids=lambda file: file.name)
@pytest.mark.parametrize("wire", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_a_session_is_exported_as_any_wire(tenfold: Cli, file: Path, wire: str, tmp_path: Path) -> None:
    session = tenfold.run_json("compact", file, "--to", "10%")["session"]
    out = tmp_path / "out.json"
    sizes = []
    for which in ("--view", "--original"):
        tenfold.run_ok("export", session, "--as", wire, which, "--out", out, "--force")
        messages = json.loads(out.read_text("utf-8"))
        assert all(isinstance(m, dict) for m in messages)
        (again,) = read_file(out, format="gemini-cli" if wire == "gemini" else wire)
        if which == "--original":
            assert get_results(again) == get_results(read_file(file)[0])
        sizes.append(out.stat().st_size)
    assert sizes[0] * 3 < sizes[1]


@pytest.mark.parametrize("policy", ["tiers", "clip"])
@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_a_summary_of_the_role_system_stands_in_every_exported_list(
    tenfold: Cli, pi: Path, policy: str, wire: str
) -> None:
    tenfold.run_ok("compact", pi, "--to", "15%", "--policy", policy)
    exported = tenfold.run_ok("export", "last", "--as", wire)
    assert exported.out.count("<tenfold-summary") == 1
    assert "system text" not in exported.err
    assert validate(json.loads(exported.out), wire) == []


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json*")), ids=lambda file: file.name)
def test_the_originals_are_exported_byte_for_byte(tenfold: Cli, file: Path, tmp_path: Path) -> None:
    session = tenfold.run_json("compact", file, "--to", "10%")["session"]
    out = tmp_path / "out"
    tenfold.run_ok("export", session, "--original", "--out", out)
    assert out.read_bytes() == file.read_bytes()


def test_an_unknown_export_format_names_those_there_are(tenfold: Cli, stored: str) -> None:
    ran = tenfold("export", stored, "--as", "claude-code")
    assert ran.code == 2
    assert "pi, " in ran.err
    assert "openai-responses" in ran.err


def test_purge_asks_and_reaches_what_quotes_the_entry(tenfold: Cli, stored: str) -> None:
    entry = tenfold.run_ok("search", IN_VIEW_NO_MORE, "--json").objects[0]["entry"]
    ran = tenfold("purge", entry)
    assert ran.code == 2
    assert "--yes" in ran.err
    assert tenfold.run_json("purge", entry, "--yes")["entry"] == entry
    assert entry not in {hit["entry"] for hit in tenfold.run_ok("search", IN_VIEW_NO_MORE, "--json").objects}
    tenfold.run_ok("verify")
    assert tenfold.run_ok("purge", stored, "--yes").out.startswith("purged: session ")
    assert tenfold.run_ok("sessions", "--json").objects == []
    assert tenfold("show", stored).code == 2


def test_verify_finds_damage_and_says_where(tenfold: Cli, stored: str) -> None:
    assert "1 session verified, no problems" in tenfold.run_ok("verify").out
    db = sqlite3.connect(tenfold.store)
    with db:
        db.execute("UPDATE entry SET body = substr(body, 1, length(body) - 1) || x'00' WHERE seq = 5")
    db.close()
    ran = tenfold("verify", "--json")
    assert ran.code == 4
    assert {o["session"] for o in ran.objects} == {stored}


def test_policies_tell_their_limits(tenfold: Cli) -> None:
    objects = tenfold.run_ok("policies", "--window", "100000", "--json").objects
    assert [(o["policy"], o["soft"], o["target"]) for o in objects if o["policy"] == "tenfold"] == [
        ("tenfold", 85_000, 40_000)
    ]
    assert "summarize-prefix" in tenfold.run_ok("policies").out


@pytest.mark.parametrize("command", ["show", "diff", "undo", "export", "expand", "pin"])
def test_ids_that_name_nothing_say_where_to_look(tenfold: Cli, stored: str, command: str) -> None:
    del stored
    ran = tenfold(command, "00000000")
    assert ran.code == 2
    assert "`tenfold " in ran.err


def test_ids_that_name_several_ask_for_more(tenfold: Cli, pi: Path, chat: Path) -> None:
    tenfold.run_ok("compact", pi, chat, "--to", "10%")
    ran = tenfold("show", "0")
    assert ran.code == 2
    assert "2 sessions have an id that begins with '0'" in ran.err


def test_a_whole_id_is_purged_though_another_begins_with_it(tenfold: Cli) -> None:
    with closing(SqliteStore(tenfold.store)) as store:
        for id_ in ("support-4", "support-42"):
            store.create(DEFAULT_NAMESPACE, SessionInfo(id_, title="a customer"))
    assert "2 sessions" in tenfold("purge", "support", "--yes").err
    tenfold.run_ok("purge", "support-4", "--yes")
    assert [row["session"] for row in tenfold.run_ok("sessions", "--json").objects] == ["support-42"]


def test_an_unknown_id_says_what_to_do_next(
    tenfold: Cli, stored: str, pi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = tenfold.run_json("show", stored)["timeline"][0]["id"]
    assert f"`tenfold expand {entry}` prints it" in tenfold("show", entry).err
    file = write_messages(tmp_path / "new.json", [{"role": "user", "content": "hello"}])
    assert f"`tenfold import {file}` stores it" in tenfold("diff", str(file)).err
    place = tmp_path / ".pi" / "agent" / "sessions" / "--srv--"
    place.mkdir(parents=True)
    client_id = json.loads(pi.read_text("utf-8").splitlines()[0])["id"]
    (place / "2026-01-01_x.jsonl").write_text(pi.read_text("utf-8").replace(client_id, "0c0ffee0-1111"), "utf-8")
    assert "`tenfold import 0c0ffee0-1111` stores it" in tenfold("show", "0c0ffee0").err
    assert tenfold("show", "0c0ffee0").code == 2


def test_what_was_imported_last_is_shown_where_its_messages_have_no_times(tenfold: Cli, tmp_path: Path) -> None:
    tenfold.run_ok("compact", EXAMPLES / "logs.pi.jsonl", "--to", "20%")
    file = tmp_path / "chat.json"
    file.write_text('[{"role": "user", "content": "Imported just now."}, {"role": "assistant", "content": "Yes."}]')
    tenfold.run_ok("import", file)
    assert "Imported just now." in tenfold.run_ok("show").out
