"""The peers: the protocol against a worker of the tests, what workers share, and each real peer that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenfold.errors import UsageError
from tenfold.testing.chats import count_message_tokens, count_total_tokens
from tenfold.testing.methods import UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import list_cases, read_sessions
from tenfold_yardstick.long_history import LongHistory
from tenfold_yardstick.peers import OFFLINE_SETTINGS, PEERS, STANDINS, WORKERS, Peer, PeerMethod, Worker, get_peers
from tests.shape.scan import ROOT

FAKE = Path(__file__).with_name("fake_worker.py")
COMMON = WORKERS / "common"
SESSION = ROOT / "examples" / "sessions" / "tracker.codex.jsonl"
PAST: list[ChatMessage] = [{"role": "user", "content": f"line {n} of the notes"} for n in range(6)]
BUDGET = 3_000


def make_fake_worker(behaviour: str, *, patience: float = 500.0) -> Worker:
    return Worker([sys.executable, str(FAKE), behaviour], timeout=patience)


def make_peer(worker: Worker) -> Peer:
    return Peer(PeerMethod("fake", "method"), worker)


# -- the protocol ------------------------------------------------------------------------------------------------------


def test_what_a_peer_answers_is_counted_here_and_its_process_is_kept() -> None:
    worker = make_fake_worker("keeps")
    peer = make_peer(worker)
    first, second = (peer.compact(PAST, budget=50) for _ in range(2))
    worker.close()
    assert first.messages == tuple(PAST[-2:])
    assert first.tokens == count_total_tokens(PAST[-2:])
    assert (first.seconds, first.spent_input, first.spent_output) == (0.25, 30, 3)
    assert (first.note, second.note) == ("asked 1 times", "asked 2 times")


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("refuses", "method asks a server"),
        ("dies", "its process ended with 1: no module named peer"),
        ("babbles", "its answer is not of the protocol"),
    ],
)
def test_a_peer_that_cannot_is_unable_with_the_reason(behaviour: str, reason: str) -> None:
    worker = make_fake_worker(behaviour)
    with pytest.raises(UnableError, match=reason):
        make_peer(worker).compact(PAST, budget=50)
    worker.close()


def test_a_peer_that_takes_too_long_is_stopped_and_started_anew_at_the_next_question() -> None:
    worker = make_fake_worker("sleeps", patience=0.3)
    for _ in range(2):
        with pytest.raises(UnableError, match=r"no answer within 0\.3 s"):
            make_peer(worker).compact(PAST, budget=50)
    worker.close()


def test_a_worker_sees_no_key_no_proxy_and_no_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTPS_PROXY", "LANGSMITH_API_KEY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    worker = make_fake_worker("surroundings")
    seen = json.loads(str(make_peer(worker).compact(PAST, budget=50).messages[0]["content"]))
    worker.close()
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY", "LANGSMITH_API_KEY"} & set(seen)
    assert OFFLINE_SETTINGS.items() <= seen.items()
    assert seen["HOME"] == seen["cwd"] != os.environ.get("HOME")


# -- which there are ---------------------------------------------------------------------------------------------------


def test_a_peer_that_is_not_installed_is_listed_with_how_to_get_it(tmp_path: Path) -> None:
    (found,) = get_peers(["langchain/trim"], folder=tmp_path)
    assert found.name == "langchain/trim"
    with pytest.raises(UnableError, match="tenfold eval peers install langchain"):
        found.compact(PAST, budget=50)


def test_a_peer_whose_installation_failed_says_why(tmp_path: Path) -> None:
    (tmp_path / "openhands.failed").write_text("it needs Python 3.12, which is not here\n")
    (found,) = get_peers(["openhands"], folder=tmp_path)
    with pytest.raises(UnableError, match=r"could not be installed: it needs Python 3\.12"):
        found.compact(PAST, budget=50)


def test_a_workers_name_means_all_its_methods_and_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    assert [p.name for p in get_peers(["langchain"], folder=tmp_path)] == [
        k.name for k in PEERS if k.worker == "langchain"
    ]
    assert [p.name for p in get_peers(folder=tmp_path)] == [k.name for k in PEERS]
    both = [p.name for p in get_peers(["langchain"], folder=tmp_path, standins=STANDINS)]
    assert both == [
        "langchain/summarization",
        "langchain/summarization+names",
        "langchain/clear-tool-uses",
        "langchain/trim",
    ], "only what summarizes depends on the stand-in"
    with pytest.raises(UsageError, match="no peer 'langgraph'"):
        get_peers(["langgraph"])


def test_every_peer_has_a_worker_and_pins_alone() -> None:
    assert {k.worker for k in PEERS} == {path.parent.name for path in WORKERS.glob("*/worker.py")}
    for path in WORKERS.glob("*/requirements.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("# python >= ")]
        assert lines, path
        assert all(line.count("==") == 1 and "://" not in line and " " not in line for line in lines), path
        assert any(line.startswith("toktok-rs==") for line in lines), f"{path}: workers count with it"


def test_workers_import_nothing_of_tenfold() -> None:
    for path in WORKERS.rglob("*.py"):
        assert "import tenfold" not in path.read_text(), path
        assert "from tenfold" not in path.read_text(), path


# -- what workers share ------------------------------------------------------------------------------------------------


def run_shared_code(code: str, *arguments: str) -> str:
    """What a few lines print that run with the workers' own modules."""
    command = [sys.executable, "-c", code, *arguments]
    env = {**os.environ, "PYTHONPATH": str(COMMON)}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def read_past() -> list[ChatMessage]:
    """The past of a recorded session: calls, results, prose."""
    found = list_cases([SESSION])
    return list(found[0].past)


def test_workers_count_as_the_yardstick_counts(tmp_path: Path) -> None:
    past = read_past()
    file = tmp_path / "past.json"
    file.write_text(json.dumps(past))
    code = "import json, sys, serving; print([serving.size([m]) for m in json.load(open(sys.argv[1]))])"
    assert json.loads(run_shared_code(code, str(file))) == count_message_tokens(past)


def make_images(count: int) -> list[ChatMessage]:
    """What a person shows: images, each with a few words, or none."""
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/one.png"}}
    said = ["Look at this.", "And at this one.", ""]
    parts = [[{"type": "text", "text": said[n % 3]}, image] if said[n % 3] else [image] for n in range(count)]
    return [{"role": "user", "content": part} for part in parts]


def test_workers_count_what_is_no_text_as_the_yardstick_does() -> None:
    past = [*PAST, *make_images(6)]
    code = """
import json, sys, serving
past, sizes = json.loads(sys.argv[1])
serving.learn_sizes(past, sizes)
plain = [{**m, "content": serving.get_text(m)} for m in past]
print(json.dumps([[serving.size([m]) for m in each] for each in (past, plain)]))
"""
    counted = count_message_tokens(past)
    assert counted[-1] > 1_000
    assert json.loads(run_shared_code(code, json.dumps([past, counted]))) == [counted, counted]


def test_a_past_with_images_that_does_not_fit_is_compacted() -> None:
    (peer,) = get_peers(["langchain/trim"])
    if peer.missing:
        pytest.skip(peer.missing)
    past = [*PAST, *make_images(6), *PAST]
    made = peer.compact(past, budget=4_000)
    peer.close()
    assert 0 < made.tokens <= 4_000
    assert any(message in past[6:12] for message in made.messages)


STANDIN = """
import json, sys, standin, serving
texts = json.loads(sys.argv[1])
found = standin.summary(texts, int(sys.argv[2]))
print(json.dumps([found, serving.tokens(found)]))
"""


def summarize_texts(texts: str | list[str], allowed: int) -> tuple[str, int]:
    found, size = json.loads(run_shared_code(STANDIN, json.dumps(texts), str(allowed)))
    return str(found), int(size)


def test_the_stand_in_gives_first_and_last_sentence_of_each_message() -> None:
    found, _ = summarize_texts(["user: Fix it. Please hurry. Thanks!", "assistant: One moment."], 100)
    assert found.splitlines() == ["user: Fix it. ... Thanks!", "assistant: One moment."]


def test_the_stand_in_finds_the_messages_in_a_rendered_conversation() -> None:
    prompt = '<message role="user">\nFix it. Now.\n</message>\n2. [assistant] Done. Tests pass.\nTool: ok'
    found, _ = summarize_texts(prompt, 100)
    assert found.splitlines() == ["Fix it. ... Now.", "2. [assistant] Done. ... Tests pass.", "Tool: ok"]


def test_the_other_stand_in_lists_names_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_STANDIN", "names")
    texts = ["user: Look at src/a.py, please.", "assistant: handle_39_input gives 8841. So does src/a.py in appMain."]
    found, _ = summarize_texts(texts, 100)
    assert found.splitlines() == ["handle_39_input", "8841", "src/a.py", "appMain"]
    assert summarize_texts(texts, 1)[0] == ""


@pytest.mark.parametrize("allowed", [1, 7, 40, 400])
def test_the_stand_in_stays_within_its_allotment_and_is_the_same_every_time(allowed: int) -> None:
    texts = [f"user: This is remark number {n}, a long one. " + "word " * 80 + f"The end of {n}." for n in range(60)]
    first, size = summarize_texts(texts, allowed)
    assert size <= allowed
    assert summarize_texts(texts, allowed)[0] == first
    if allowed == 400:
        assert "remark number 0," in first
        assert "remark number 59," in first


def test_the_search_finds_the_largest_result_within_the_budget() -> None:
    code = """
import serving
past = [{"role": "user", "content": f"line {n}"} for n in range(200)]
asked = []
def run(keep):
    asked.append(keep)
    return past[len(past) - keep:]
made = serving.fit_setting(run, past, 300, 200)
print([made.size, made.setting, len(asked)])
"""
    size, setting, asked = json.loads(run_shared_code(code))
    assert 0.95 * 300 <= size <= 300
    assert setting > 0
    assert asked <= 9


def test_a_worker_is_refused_the_network() -> None:
    code = """
import json, subprocess, sys, urllib.request, serving
def phone(past, budget, window):
    urllib.request.urlopen("http://192.0.2.1/")
past = [{"role": "user", "content": "word " * 90}]
sys.stdin = [json.dumps({"id": 1, "method": "phone", "messages": past, "sizes": [94], "budget": 9})]
serving.serve({"phone": phone}, ["toktok-rs"])
"""
    answer = json.loads(run_shared_code(code))
    assert "this worker is offline" in answer["unable"]


# -- the real ones -----------------------------------------------------------------------------------------------------

SERVER_ONLY = "openai-agents/responses-compaction"
NO_TARGET = {"agno/tool-results", "headroom/compress", "openai-agents/tool-output-trimmer"}
"""They shorten what they shorten: no setting of theirs reaches every budget."""


@pytest.mark.parametrize("worker", sorted({k.worker for k in PEERS}))
def test_an_installed_peer_lands_within_the_budget_and_its_hook_leaves_a_short_history_alone(worker: str) -> None:
    found = get_peers([worker])
    if found[0].missing:
        pytest.skip(found[0].missing)
    past = read_past()
    assert count_total_tokens(past) > 2 * BUDGET
    early, steps = LongHistory(read_sessions(SESSION)).build_history(40, turns=3)
    for peer in found:
        if peer.name == SERVER_ONLY:
            with pytest.raises(UnableError, match="server"):
                peer.compact(past, budget=BUDGET)
            with pytest.raises(UnableError, match="server"):
                peer.time_turns(early, steps, limit=20.0)
            continue
        took = peer.time_turns(early, steps, limit=20.0)
        assert len(took) == 2, f"{peer.name}: the first turn is a warm-up"
        assert min(took) > 0, peer.name
        made = peer.compact(past, budget=BUDGET)
        assert 0 < made.tokens < count_total_tokens(past), peer.name
        assert made.tokens <= BUDGET or peer.name in NO_TARGET, peer.name
        assert any(message in past for message in made.messages), f"{peer.name}: what it keeps comes back as it was"
    found[0].close()
