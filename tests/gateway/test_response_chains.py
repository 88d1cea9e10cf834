"""Conversations that the provider holds, by the name of a response; and the compaction that Codex asks for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tenfold.apps.gateway.model_request import ModelRequest, parse_request
from tenfold.apps.gateway.stored_responses import ResponseChains
from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tenfold.store.location import open_store
from tests.gateway.conversations import Talk, fill_words, find_marks, list_sessions, post, read_stored
from tests.gateway.serving import RawAnswer, RawRequest, RawUpstream, run_gateway, serve_gateway

Json = dict[str, Any]
WINDOW = 16_000
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]


class StatefulProvider:
    """An upstream that holds responses as OpenAI does, and refuses a request that names one it does not have.

    `seen` is the whole list that the model would have seen in each request.
    """

    def __init__(self) -> None:
        self.held: dict[str, list[Json]] = {}
        self.seen: list[list[Json]] = []

    def answer(self, request: RawRequest) -> RawAnswer:
        """Calls the tool at each step."""
        body = json.loads(request.body)
        name = body.get("previous_response_id")
        given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        if name and name not in self.held:
            error = {"error": {"message": f"Previous response with id '{name}' not found.", "type": "invalid_request"}}
            return RawAnswer((json.dumps(error).encode(),), 404)
        whole = [*self.held.get(name or "", []), *given]
        self.seen.append(whole)
        number = len(self.seen)
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "look"}
        output = [{**call, "arguments": "{}", "status": "completed"}]
        id_ = f"resp_{number}"
        if body.get("store") is not False:
            self.held[id_] = [*whole, *output]
        tokens = len(json.dumps(whole)) // 4
        usage = {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20}
        response = {"id": id_, "object": "response", "status": "completed", "output": output, "usage": usage}
        if not body.get("stream"):
            return RawAnswer((json.dumps(response).encode(),))
        events: list[Json] = [
            {"type": "response.created", "response": {**response, "output": [], "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": output[0]},
            {"type": "response.completed", "response": response},
        ]
        chunks = tuple(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
        return RawAnswer(chunks, headers=((b"content-type", b"text/event-stream"),))


@pytest.fixture
def provider() -> StatefulProvider:
    return StatefulProvider()


class ChainedClient:
    """A client that sends only what is new, as agent-framework does by default."""

    def __init__(self, *, stream: bool = False) -> None:
        self.stream, self.previous, self.pending = stream, "", ""
        self.number = 0

    def send(self, url: str, words: int = 300, **extra: object) -> httpx.Response:
        """The result of the last call, or the first question."""
        self.number += 1
        body: Json = {"model": "gpt-5-mini", "tools": TOOLS, "stream": self.stream, **extra}
        if self.previous:
            text = f"<<c:{self.number}>> {fill_words(f'c{self.number}', words)}"
            body["previous_response_id"] = self.previous
            body["input"] = [{"type": "function_call_output", "call_id": self.pending, "output": text}]
        else:
            body["input"] = f"<<c:{self.number}>> Look at all parts of the program. Never touch config/secret.toml."
        sent = post(url, "responses", json.dumps(body).encode())
        if sent.status_code == 200:
            self.read(sent.text)
        return sent

    def read(self, text: str) -> None:
        """Keeps the names in a response."""
        if self.stream:
            last = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")][-1]
            assert last["type"] == "response.completed"
            response = last["response"]
        else:
            response = json.loads(text)
        self.previous, self.pending = response["id"], response["output"][0]["call_id"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_chain_is_compacted_in_its_middle(*, stream: bool, provider: StatefulProvider, store: Store) -> None:
    client = ChainedClient(stream=stream)
    with run_gateway(provider.answer, store=store, window=WINDOW) as (upstream, gateway):
        for number in range(45):
            assert client.send(gateway.url).status_code == 200
            body = json.loads(upstream.requests[-1].body)
            if number == 3:
                assert body["previous_response_id"] == "resp_3", "what fits goes as the client sends it"
        assert gateway.gateway.log.totals.compactions >= 2
    assert max(len(json.dumps(whole)) for whole in provider.seen) < WINDOW * 5
    assert "Never touch config/secret.toml." in json.dumps(provider.seen[-1])
    for whole in provider.seen:
        calls = Counter(item["call_id"] for item in whole if item.get("type") == "function_call")
        results = Counter(item["call_id"] for item in whole if item.get("type") == "function_call_output")
        assert calls == results
        assert max(find_marks(json.dumps(whole)).values()) == 1
    (marks,) = read_stored(store).values()
    assert marks == Counter({f"c:{n}": 1 for n in range(1, 46)})
    assert store.verify(DEFAULT_NAMESPACE) == []


def test_two_branches_of_a_chain_stay_apart(provider: StatefulProvider, store: Store) -> None:
    with run_gateway(provider.answer, store=store) as (_upstream, gateway):
        trunk = ChainedClient()
        for _ in range(3):
            trunk.send(gateway.url)
        other = ChainedClient()
        other.previous, other.pending, other.number = trunk.previous, trunk.pending, 100
        for _ in range(4):
            trunk.send(gateway.url)
            other.send(gateway.url)
    (session,) = list_sessions(store)
    assert read_stored(store)[session] == Counter({f"c:{n}": 1 for n in (*range(1, 8), *range(101, 105))})


@pytest.mark.parametrize(
    "extra",
    [
        {"previous_response_id": "resp_unknown"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"previous_response_id": 7},
        {"input": [{"type": "item_reference", "id": "msg_7"}, {"role": "user", "content": "Go on."}]},
        {"input": [{"type": "of_tomorrow", "x": [1]}, {"type": "message", "role": "assistant", "content": "a"}]},
        {"prompt": {"id": "pmpt_1"}, "input": None},
    ],
)
def test_what_only_the_provider_knows_is_forwarded(extra: Json, store: Store) -> None:
    fields = {"model": "gpt-5-mini", "tools": TOOLS, "input": "Hello.", **extra}
    body = json.dumps(fields).encode()
    with run_gateway(store=store, window=WINDOW, summary_model="auto") as (upstream, gateway):
        assert post(gateway.url, "responses", body).status_code == 200
        assert upstream.requests[-1].body == body


def test_after_a_restart_the_provider_has_the_chain(provider: StatefulProvider, store: Store) -> None:
    client = ChainedClient()
    with RawUpstream(provider.answer) as upstream:
        for _ in range(3):
            with serve_gateway(upstream.url, store=store, window=WINDOW, summary_model="none") as gateway:
                for _ in range(14):
                    assert client.send(gateway.url).status_code == 200
    last = find_marks(json.dumps(provider.seen[-1]))
    assert max(last.values()) == 1
    assert "c:42" in last


def build_link(previous: str, text: str) -> ModelRequest:
    """A request that goes on from a response."""
    fields = {"model": "m", "input": text, "previous_response_id": previous or None}
    request = parse_request("/v1/responses", json.dumps(fields).encode())
    assert request is not None
    return request


def add_responses(chains: ResponseChains, name: str, numbers: range, size: int) -> None:
    """Answers a request of so many bytes after the other; the first of a chain has the number 0."""
    for number in numbers:
        previous = f"{name}{number - 1}" if number else ""
        chains.keep("t", build_link(previous, "x" * size), {"id": f"{name}{number}", "output": []})


def is_known(chains: ResponseChains, name: str) -> bool:
    """Whether all that a response stands for is there."""
    return chains.expand("t", build_link(name, "y")) is not None


def test_chains_are_bounded_by_bytes_and_the_one_used_least_recently_goes() -> None:
    chains = ResponseChains(max_bytes=100_000)
    add_responses(chains, "old", range(5), 8_000)
    add_responses(chains, "new", range(5), 8_000)
    assert is_known(chains, "old4"), "it is used again"
    add_responses(chains, "old", range(5, 9), 8_000)
    assert chains.size <= 100_000
    assert not is_known(chains, "new4")
    expanded = chains.expand("t", build_link("old8", "y"))
    assert expanded is not None
    assert len(expanded.items) == 10
    assert chains.forgotten >= 1


def test_a_chain_of_more_responses_than_are_remembered_keeps_its_beginning() -> None:
    """What cannot be named any more is a part of what came after it."""
    chains = ResponseChains(limit=4)
    add_responses(chains, "a", range(30), 10)
    whole = chains.expand("t", build_link("a29", "y"))
    assert whole is not None
    assert len(whole.items) == 31
    add_responses(chains, "b", range(3), 10)
    assert chains.expand("t", build_link("a29", "y")) == whole, "others take names, and not items"
    assert not is_known(chains, "a10")
    branched = ResponseChains(limit=5)
    add_responses(branched, "a", range(3), 10)
    for name in ("b", "c"):
        branched.keep("t", build_link("a2", name), {"id": f"{name}0", "output": []})
    for number in range(1, 4):
        add_responses(branched, "b", range(number, number + 1), 10)
        add_responses(branched, "c", range(number, number + 1), 10)
    for name in ("b3", "c3"):
        branch = branched.expand("t", build_link(name, "y"))
        assert branch is not None
        assert len(branch.items) == 8


def test_a_chain_that_is_larger_than_all_of_the_room_is_left_to_the_provider() -> None:
    chains = ResponseChains(max_bytes=100_000)
    add_responses(chains, "a", range(40), 8_000)
    assert chains.size <= 100_000
    assert not is_known(chains, "a39"), "a part of it would be worse than nothing"
    add_responses(chains, "b", range(2), 8_000)
    assert is_known(chains, "b1")


def test_an_answer_with_the_same_name_takes_the_place_of_the_other() -> None:
    chains = ResponseChains(max_bytes=100_000)
    for _ in range(30):
        add_responses(chains, "a", range(1), 8_000)
    assert chains.size < 9_000
    assert chains.forgotten == 0


def test_answers_whose_items_have_one_name_are_remembered() -> None:
    """As where a server of one's own names each message alike: a name that another answer had is no fault."""
    chains = ResponseChains(limit=3)
    output = [{"id": "msg_1", "type": "message"}]
    chains.keep("t", build_link("", "x"), {"id": "a0", "output": output})
    chains.keep("t", build_link("", "x"), {"id": "b0", "output": output})
    for number in range(1, 8):
        chains.keep("t", build_link(f"a{number - 1}", "x"), {"id": f"a{number}", "output": []})
        chains.keep("t", build_link("", "x"), {"id": "b0", "output": []})
    whole = chains.expand("t", build_link("a7", "y"))
    assert whole is not None
    assert len(whole.items) == 10


def test_a_forgotten_chain_is_forwarded_and_said_to_be_so(provider: StatefulProvider, store: Store) -> None:
    client = ChainedClient()
    with RawUpstream(provider.answer) as upstream:
        with serve_gateway(upstream.url, store=store, window=WINDOW, summary_model="none") as gateway:
            assert "x-tenfold-bypass" not in client.send(gateway.url).headers
        with serve_gateway(upstream.url, store=store, window=WINDOW, summary_model="none") as gateway:
            sent = client.send(gateway.url)
            metrics = httpx.get(f"{gateway.url}/metrics", timeout=500).text
    assert sent.status_code == 200
    assert "not known here" in sent.headers["x-tenfold-bypass"]
    assert "tenfold_gateway_bypasses_total 1.0" in metrics
    assert "tenfold_gateway_chain_bytes 0.0" in metrics
    assert "tenfold_gateway_forgotten_responses 0.0" in metrics


def test_a_response_that_is_not_stored_is_not_remembered(provider: StatefulProvider, store: Store) -> None:
    client = ChainedClient()
    with run_gateway(provider.answer, store=store) as (_upstream, gateway):
        client.send(gateway.url, store=False)
        refused = client.send(gateway.url, store=False)
    assert refused.status_code == 404
    assert "not found" in refused.json()["error"]["message"]


def test_a_chain_belongs_to_who_began_it(provider: StatefulProvider, store: Store) -> None:
    client = ChainedClient()
    with run_gateway(provider.answer, store=store) as (upstream, gateway):
        client.send(gateway.url)
        result = {"type": "function_call_output", "call_id": client.pending, "output": "x"}
        body = {"model": "gpt-5-mini", "previous_response_id": client.previous, "input": [result]}
        sent = post(gateway.url, "responses", json.dumps(body).encode(), {"authorization": "Bearer sk-two"})
        assert json.loads(upstream.requests[-1].body) == body
    assert "x-tenfold-session" not in sent.headers


def ask_compaction(talk: Talk, url: str, *, stream: bool, **headers: str) -> Json:
    """Has the gateway compact as Codex does, and goes on with the item as Codex does."""
    asking = talk.copy()
    asking.items.append({"type": "compaction_trigger"})
    asking.extra["stream"] = stream
    sent = asking.send(url, **headers)
    assert sent.status_code == 200
    if not stream:
        outputs = sent.json()["output"]
    else:
        assert sent.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in sent.text.splitlines() if line.startswith("data: ")]
        assert events[-1]["type"] == "response.completed"
        done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        outputs = events[-1]["response"]["output"]
        assert done == outputs
    (item,) = outputs
    assert item["type"] == "compaction"
    users = [i for i in talk.items if i.get("role") == "user"][-2:]
    talk.items = [*users, item]
    found: Json = item
    return found


@pytest.mark.parametrize("stream", [False, True])
def test_codex_gets_its_compaction_and_it_is_expanded_later(*, stream: bool, tmp_path: Path) -> None:
    talk = Talk("responses")
    talk.headers["session-id"] = "thread-1"
    with RawUpstream() as upstream:
        store = open_store(tmp_path / "s.db")
        with serve_gateway(upstream.url, store=store, window=200_000, summary_model="none") as gateway:
            talk.add_user("Look at all parts of the program. Never touch config/secret.toml.")
            talk.add_steps(20, 200)
            talk.send(gateway.url)
            before = len(upstream.requests)
            ask_compaction(talk, gateway.url, stream=stream)
            assert len(upstream.requests) == before, "the gateway answers itself"
            talk.add_step(50)
            talk.send(gateway.url)
            sent = json.loads(upstream.requests[-1].body)["input"]
            assert "tenfold:" not in json.dumps(sent)
            assert all(item.get("type") != "compaction" for item in sent)
            assert "Never touch config/secret.toml." in json.dumps(sent)
            assert "<tenfold-summary" in json.dumps(sent)
            assert len(json.dumps(sent)) < len(json.dumps(Talk("responses").items)) + 60_000
            talk.add_steps(20, 200)
            talk.send(gateway.url)
            ask_compaction(talk, gateway.url, stream=stream)
            talk.add_step(50)
            talk.send(gateway.url)
            second = json.loads(upstream.requests[-1].body)["input"]
            assert max(find_marks(json.dumps(second)).values()) == 1
            assert len(json.dumps(second)) < 80_000
        store.close()
        store = open_store(tmp_path / "s.db")
        with serve_gateway(upstream.url, store=store, window=200_000, summary_model="none") as gateway:
            talk.add_step(50)
            talk.send(gateway.url)
            third = json.loads(upstream.requests[-1].body)["input"]
            assert third[: len(second)] == second, "a token means the same after a restart"
            body = talk.build_body()
            post(gateway.url, "responses", body, {"authorization": "Bearer sk-two", "session-id": "thread-1"})
            assert upstream.requests[-1].body == body, "someone else's token is no token of ours"
        assert store.verify(DEFAULT_NAMESPACE) == []
        counts = sum(read_stored(store).values(), Counter())
        store.close()
    others = {mark for mark, count in counts.items() if count > 2}
    assert others == set()


@pytest.mark.parametrize("change", ["cut", "other type", "plain", "provider's"])
def test_a_token_that_is_none_goes_to_the_provider(change: str, store: Store) -> None:
    talk = Talk("responses")
    with run_gateway(store=store, window=WINDOW, summary_model="auto") as (upstream, gateway):
        talk.add_user()
        talk.add_steps(3)
        talk.send(gateway.url)
        item = ask_compaction(talk, gateway.url, stream=False)
        match change:
            case "cut":
                item["encrypted_content"] = item["encrypted_content"][:-9]
            case "other type":
                item["type"] = "reasoning"
            case "plain":
                item["encrypted_content"] = "tenfold:"
            case _:
                item["encrypted_content"] = "gAAAA"
        talk.add_step()
        assert talk.send(gateway.url).status_code == 200
        assert upstream.requests[-1].body == talk.build_body()


class ReferringProvider(StatefulProvider):
    """A provider that knows the items of its answers by their ids, and refuses a reference to any other."""

    def answer(self, request: RawRequest) -> RawAnswer:
        """Reads the list with the items themselves, as the model would see it."""
        body = json.loads(request.body)
        known = {item["id"]: item for whole in self.held.values() for item in whole if "id" in item}
        given = [known.get(item["id"]) if item.get("type") == "item_reference" else item for item in body["input"]]
        if None in given:
            return RawAnswer((b'{"error":{"message":"Item with id not found.","type":"invalid_request"}}',), 404)
        return super().answer(replace(request, body=json.dumps({**body, "input": given}).encode()))


class ReferringClient:
    """A client that sends its whole list, with references in place of what the model answered, as the AI SDK does."""

    def __init__(self) -> None:
        question = "<<r:0>> Look at all parts of the program. Never touch config/secret.toml."
        self.items: list[Json] = [{"role": "user", "content": question}]
        self.body = b""

    def send(self, url: str, words: int = 300, **extra: object) -> httpx.Response:
        """The whole list. Then the answer is added, and the result of its call."""
        self.body = json.dumps({"model": "gpt-5-mini", "tools": TOOLS, "input": self.items, **extra}).encode()
        sent = post(url, "responses", self.body)
        if sent.status_code == 200:
            (call,) = sent.json()["output"]
            text = f"<<r:{len(self.items)}>> {fill_words(call['id'], words)}"
            self.items.append({"type": "item_reference", "id": call["id"]})
            self.items.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})
        return sent


def test_a_list_with_references_to_answers_is_compacted(store: Store) -> None:
    client, provider = ReferringClient(), ReferringProvider()
    with run_gateway(provider.answer, store=store, window=WINDOW) as (upstream, gateway):
        for number in range(45):
            assert client.send(gateway.url).status_code == 200
            if number < 4:
                assert upstream.requests[-1].body == client.body, "what fits goes as it came"
        assert gateway.gateway.log.totals.compactions >= 2
    assert max(len(json.dumps(whole)) for whole in provider.seen) < WINDOW * 5
    for whole in provider.seen:
        calls = Counter(item["call_id"] for item in whole if item.get("type") == "function_call")
        assert calls == Counter(item["call_id"] for item in whole if item.get("type") == "function_call_output")
        assert max(find_marks(json.dumps(whole)).values()) == 1
    (marks,) = read_stored(store).values()
    assert set(marks.values()) == {1}
    assert len(marks) == 45
    assert store.verify(DEFAULT_NAMESPACE) == []


def test_references_that_are_not_known_are_the_providers(store: Store) -> None:
    client, provider = ReferringClient(), ReferringProvider()
    with RawUpstream(provider.answer) as upstream:
        for _ in range(2):
            with serve_gateway(upstream.url, store=store, window=WINDOW) as gateway:
                sent = [client.send(gateway.url, 20) for _ in range(3)]
                assert upstream.requests[-1].body == client.body
        assert "not known here" in sent[-1].headers["x-tenfold-bypass"]
        with serve_gateway(upstream.url, store=store, window=WINDOW) as gateway:
            first = ReferringClient()
            first.send(gateway.url)
            foreign = httpx.post(
                f"{gateway.url}/v1/responses",
                content=json.dumps({"model": "m", "input": first.items}).encode(),
                headers={"authorization": "Bearer sk-two"},
                timeout=500,
            )
        assert "not known here" in foreign.headers["x-tenfold-bypass"], "another user's are none of his"


def test_references_go_with_the_response_that_they_are_of() -> None:
    chains = ResponseChains(limit=2)
    request = parse_request("/v1/responses", b'{"model":"m","input":"Look."}')
    assert request is not None

    def can_expand(item: str) -> bool:
        asked = parse_request("/v1/responses", json.dumps({"input": [{"type": "item_reference", "id": item}]}).encode())
        assert asked is not None
        return chains.expand_references("t", asked) is not None

    for response, item in (("r1", "a"), ("r2", "b"), ("r3", "a"), ("r4", "c"), ("r4", "d")):
        chains.keep("t", request, {"id": response, "output": [{"type": "message", "id": item}]})
    assert [can_expand(item) for item in "bcda"] == [False, False, True, True]
    chains.keep("t", request, {"id": "r5", "output": ["no item"]})
    chains.keep("t", request, {"id": "r5", "output": [{"type": "message"}]})
    assert [can_expand(item) for item in "ad"] == [True, False], "what was used last stays"
