"""A session is opened in one line, by its id, and remembers what it was opened with."""

from __future__ import annotations

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tenfold
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import Message, Text, get_text
from tenfold.errors import BadInput, ContextOverflow, NotFoundError, UsageError
from tenfold.session.opening import check_options

LONG = "The belt of line seven runs at four metres a second. " * 200


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENFOLD_STORE", str(tmp_path / "store.db"))


def build_history(exchanges: int) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": f"{at}: {LONG}"} for at in range(2 * exchanges - 1)]


class Refusal(Exception):
    status_code = 400


def test_a_session_is_created_once_and_opened_again_by_its_id() -> None:
    session = tenfold.open_session("support-42", model="gpt-4o", policy="tail", window=9_000)
    session.before_model({"model": "gpt-4o", "messages": build_history(4)})
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    again = tenfold.open_session("support-42")
    assert (again.policy.name, again.compactor.model, again.compactor.window) == ("tail", "gpt-4o", 9_000)
    assert again.view.get_messages() == session.view.get_messages()


def test_sessions_without_an_id_are_new_ones() -> None:
    one, other = tenfold.open_session(model="gpt-4o"), tenfold.open_session(model="gpt-4o")
    assert one.address.session != other.address.session


def test_a_session_that_is_never_used_leaves_nothing_behind() -> None:
    """And what is asked of it is answered as for one that is empty."""
    session = tenfold.open_session("s", model="gpt-4o", policy="tail", window=9_000)
    store = session.address.store
    assert session.before_model({"model": "gpt-4o", "messages": []})["messages"] == []
    session.after_model({"usage": {"prompt_tokens": 7, "completion_tokens": 1}})
    assert session.refresh().length == 0
    assert session.search("belt") == []
    assert "nothing in this" in session.tools.handle("recall_search", {"words": "belt"})
    assert session.compact(to=500).status == "nothing"
    with pytest.raises(UsageError):
        session.undo()
    with pytest.raises(NotFoundError):
        session.expand("0")
    assert store.list_sessions("default") == []
    assert store.list_namespaces() == []
    session.append(Message("user", (Text("Hello"),), "human"))
    again = tenfold.open_session("s")
    assert (again.policy.name, again.compactor.model, again.compactor.window) == ("tail", "gpt-4o", 9_000)
    assert again.view.length == 1


def test_two_may_open_a_new_session_at_once() -> None:
    """What the first has named is remembered, unless the second has named it, too."""
    first = tenfold.open_session("s", model="own-model", policy="tail", window=9_000)
    second, third = tenfold.open_session("s"), tenfold.open_session("s", model="gpt-4o")
    for number, session in enumerate((first, second)):
        session.append(Message("user", (Text(f"Hello {number}"),), "human"))
    assert second.view.length == 2
    again = tenfold.open_session("s")
    assert (again.policy.name, again.compactor.model, again.compactor.window) == ("tail", "own-model", 9_000)
    assert third.refresh().length == 2
    third.append(Message("user", (Text("Hello"),), "human"))
    info = third.address.store.read_info("default", "s")
    assert info is not None
    assert (info.model, info.policy, info.window) == ("gpt-4o", "tail", 0)
    third.address.store.purge("default", "s", None, now=0)
    with pytest.raises(NotFoundError):
        first.refresh()


def test_threads_that_begin_one_session_at_once_lose_nothing() -> None:
    sessions = [tenfold.open_session("s", policy="tail") for _ in range(4)]
    hello = [Message("user", (Text(f"Hello {number}"),), "human") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: pair[0].append(pair[1]), zip(sessions, hello, strict=True)))
    again = tenfold.open_session("s")
    assert sorted(map(get_text, again.view.get_messages())) == [get_text(message) for message in hello]
    assert again.policy.name == "tail"


def test_another_model_has_its_own_window() -> None:
    begun = tenfold.open_session("s", model="own-model", window=9_000)
    begun.append(Message("user", (Text("Hello"),), "human"))
    session = tenfold.open_session("s", model="gpt-4o")
    assert session.take_reading().window == 128_000
    assert tenfold.open_session("s").compactor.window is None


def test_opening_again_changes_nothing_in_the_store(tmp_path: Path) -> None:
    session = tenfold.open_session("s", model="gpt-4o")
    session.append(Message("user", (Text("Hello"),), "human"))
    store = session.address.store
    before = store.read_info("default", "s")
    assert before is not None
    tenfold.open_session("s")
    assert store.read_info("default", "s") == before
    assert (tmp_path / "store.db").exists()


def test_a_policy_that_was_never_named_follows_the_settings(tmp_path: Path) -> None:
    tenfold.open_session("s", model="gpt-4o").append(Message("user", (Text("Hello"),), "human"))
    (tmp_path / "tenfold.toml").write_text('[tenfold]\npolicy = "careful"\n[tenfold.presets.careful]\npolicy="tiers"\n')
    assert tenfold.open_session("s").policy.name == "tiers"
    assert tenfold.open_session("t", policy="clip").policy.name == "clip"


def test_a_policy_may_be_an_object() -> None:
    policy = build_policy("tenfold", choose_counter("gpt-4o").counter, compact_at=5_000)
    session = tenfold.open_session("s", model="gpt-4o", policy=policy)
    assert session.policy.get_limits(128_000).soft == 5_000


def test_a_named_summarizer_writes() -> None:
    model = tenfold.ScriptedModel(["## Notes\nThe belt runs at four metres a second."], repeat=True)
    session = tenfold.open_session("s", model="gpt-4o", window=9_000, summarizer=model)
    session.before_model({"model": "gpt-4o", "messages": build_history(4)})
    assert session.outcome is not None
    assert session.outcome.rung == "model"


def test_sessions_share_a_store_which_closes_with_the_last_of_them(tmp_path: Path) -> None:
    one, other = tenfold.open_session("a", store=tmp_path / "b.db"), tenfold.open_session("b", store="b.db")
    assert one.address.store is other.address.store
    store = weakref.ref(one.address.store)
    del one
    gc.collect()
    assert store() is not None
    del other
    gc.collect()
    assert store() is None


def test_a_store_in_memory_is_never_shared() -> None:
    one, other = tenfold.open_session("a", store=":memory:"), tenfold.open_session("a", store=":memory:")
    assert one.address.store is not other.address.store


def test_tenants_are_apart() -> None:
    one, other = (tenfold.open_session("s", model="gpt-4o", namespace=name) for name in ("acme", "globex"))
    one.before_model({"model": "gpt-4o", "messages": build_history(1)})
    assert (one.view.path.length, other.refresh().path.length) == (1, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policy": "tial"}, "tail"),
        ({"window": -5}, "window"),
        ({"summarizer": 7}, "has no answer|object with answer"),
        ({"store": "mysql://x/y"}, "PostgreSQL"),
        ({"model": 7}, "model is 7"),
    ],
)
def test_what_is_wrong_creates_nothing(options: dict[str, Any], said: str) -> None:
    with pytest.raises((UsageError, BadInput), match=said):
        tenfold.open_session("s", **options)
    assert tenfold.open_session("other").address.store.read_info("default", "s") is None


def test_asyncio_programs_open_it_too() -> None:
    async def run() -> int:
        session = await tenfold.aopen_session("s", model="gpt-4o")
        await session.before_model({"model": "gpt-4o", "messages": build_history(1)})
        return session.view.path.length

    assert asyncio.run(run()) == 1


def test_a_refused_request_is_made_shorter_by_the_limit_that_the_error_names() -> None:
    session = tenfold.open_session("s", model="gpt-4o")
    request = {"model": "gpt-4o", "messages": build_history(10)}
    assert session.before_model(request)["messages"] == request["messages"]
    error = Refusal("This model's maximum context length is 16000 tokens. However, your messages resulted in 21000")
    shorter = session.after_refusal(request, error)
    assert len(shorter["messages"]) < len(request["messages"])
    assert session.take_reading().window == 16_000
    assert session.take_reading().tokens < 16_000


def test_without_a_known_window_a_refused_request_is_halved() -> None:
    session = tenfold.open_session("s", model="own-model")
    request = {"model": "own-model", "messages": build_history(10)}
    session.before_model(request)
    before = session.take_reading().tokens
    session.after_refusal(request, Refusal("prompt is too long"))
    assert session.take_reading().tokens <= before / 2


def test_an_error_about_something_else_is_raised_again() -> None:
    session = tenfold.open_session("s", model="gpt-4o")
    request = {"model": "gpt-4o", "messages": build_history(3)}
    session.before_model(request)
    error = Refusal("invalid tool name")
    with pytest.raises(Refusal) as caught:
        session.after_refusal(request, error)
    assert caught.value is error
    assert not session.view.state.live_blocks


def test_a_refused_request_that_cannot_be_made_shorter_says_so_with_the_numbers() -> None:
    session = tenfold.open_session("s", model="own-model")
    request = {"model": "own-model", "messages": [{"role": "user", "content": "Hello"}]}
    session.before_model(request)
    with pytest.raises(ContextOverflow, match=r"refused a request of \d+ tokens.*larger window"):
        session.after_refusal(request, Refusal("prompt is too long"))


def test_asyncio_programs_answer_a_refusal_too() -> None:
    async def run() -> int:
        session = await tenfold.aopen_session("s", model="gpt-4o")
        request = {"model": "gpt-4o", "messages": build_history(10)}
        await session.before_model(request)
        error = Refusal("maximum context length is 16000 tokens, however you requested 21000 tokens")
        return len((await session.after_refusal(request, error))["messages"])

    assert asyncio.run(run()) < 19


def test_the_tools_of_a_session_find_what_is_hidden() -> None:
    session = tenfold.open_session("s", model="gpt-4o", window=9_000)
    history = [{"role": "user", "content": "The code of the safe is 7731."}, *build_history(5)[1:]]
    session.before_model({"model": "gpt-4o", "messages": history}, recall="tool")
    assert "7731" in session.tools.handle("recall_search", {"words": "safe"})


def test_a_refusal_far_below_the_window_says_that_the_window_is_smaller() -> None:
    session = tenfold.open_session("s", model="gpt-4o")
    request = {"model": "gpt-4o", "messages": build_history(10)}
    session.before_model(request)
    sent = session.take_reading().tokens
    session.after_refusal(request, Refusal("Your input exceeds the context window of this model."))
    assert session.take_reading().window == sent
    assert session.take_reading().tokens < sent


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"windows": 8_000}, "no option 'windows'; did you mean 'window'|no option 'windows'.*window"),
        ({"window": "8k"}, "window"),
        ({"policy": "agressive"}, "no policy is called 'agressive'"),
    ],
)
def test_wrong_options_are_told_before_they_are_used(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_options(options)


def test_a_refusal_of_bytes_says_nothing_of_the_window() -> None:
    session = tenfold.open_session("s", model="gpt-4o")
    request = {"model": "gpt-4o", "messages": build_history(10)}
    session.before_model(request)
    error = Refusal("Request body too large")
    error.status_code = 413
    session.after_refusal(request, error)
    assert session.take_reading().window == 128_000
