"""The pi extension and the opencode plugin in Node.js: their hooks are driven as the clients drive them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.installer.client_setups import read_asset
from tenfold.store.location import open_store
from tests.installer.serving import serve_application
from tests.installer.test_view_route import WORDS, build_steps

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
Json = dict[str, Any]
DRIVERS = {
    "pi-extension.ts": """
import tenfold from "./extension.mjs";
const handlers = {};
tenfold({ on: (name, handler) => { handlers[name] = handler; } });
const notes = [];
const ctx = { ...input.ctx, hasUI: true, ui: { notify: (...note) => notes.push(note) } };
ctx.sessionManager = { getSessionId: () => "s1" };
const payloads = [];
for (const step of input.steps) {
  if (step.usage) handlers.message_end({ message: { role: "assistant", usage: step.usage } }, ctx);
  payloads.push(await handlers.before_provider_request({ payload: step.payload }, ctx) ?? null);
}
done({ payloads, notes });
""",
    "opencode-plugin.ts": """
import { Tenfold } from "./extension.mjs";
const notes = [];
const client = {
  app: { log: async ({ body }) => notes.push(body) },
  config: { providers: async () => ({ data: { providers: input.providers } }) },
};
const hooks = await Tenfold({ client });
const answers = [];
for (const messages of input.steps) {
  const output = { messages };
  const before = [...messages];
  await hooks["experimental.chat.messages.transform"]({}, output);
  if (output.messages !== messages) throw new Error("the list has to be changed in place");
  answers.push({ messages, same: messages.map((each) => before.indexOf(each)) });
}
done({ answers, notes });
""",
}


def drive(name: str, url: str, folder: Path, value: Json) -> Json:
    """Runs an extension in Node.js with what it is given, and returns what came of it."""
    assert NODE is not None
    (folder / "extension.mjs").write_text(read_asset(name), "utf-8")
    (folder / "input.json").write_text(json.dumps(value), "utf-8")
    head = """
import { readFileSync } from "node:fs";
const input = JSON.parse(readFileSync("input.json", "utf-8"));
const done = (value) => process.stdout.write(JSON.stringify(value));
"""
    (folder / "driver.mjs").write_text(head + DRIVERS[name], "utf-8")
    env = {"PATH": str(Path(NODE).parent), "TENFOLD_GATEWAY_URL": url}
    done = subprocess.run([NODE, "driver.mjs"], cwd=folder, env=env, capture_output=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr.decode()
    out: Json = json.loads(done.stdout)
    return out


@pytest.fixture
def url() -> Iterator[str]:
    store = open_store(":memory:")
    with serve_application(Gateway(GatewaySettings(), store).application) as address:
        yield address
    store.close()


# -- pi ----------------------------------------------------------------------------------------------------------------


def build_pi(count: int, **more: object) -> Json:
    payload = {"model": "m", "messages": build_steps(count), "stream": True, "temperature": 0.5}
    return {"payload": payload, **more}


PI_CONTEXT = {"model": {"api": "openai-completions", "id": "m", "contextWindow": 16_000}}


def test_pi_sends_the_view_and_all_else_as_it_was(url: str, tmp_path: Path) -> None:
    steps = [build_pi(count) for count in (2, 10, 20)]
    done = drive("pi-extension.ts", url, tmp_path, {"ctx": PI_CONTEXT, "steps": steps})
    short, middle, long = done["payloads"]
    assert short == steps[0]["payload"]
    assert middle == steps[1]["payload"]
    assert long["messages"] != steps[2]["payload"]["messages"]
    assert len(json.dumps(long)) < 0.6 * len(json.dumps(steps[2]["payload"]))
    assert {**long, "messages": 0} == {**steps[2]["payload"], "messages": 0}
    assert long["messages"][-1] == steps[2]["payload"]["messages"][-1]
    assert "Never touch config.py." in json.dumps(long["messages"])
    ((text, level),) = done["notes"]
    assert level == "info"
    assert "are hidden from the model" in text


def test_pi_tells_what_the_provider_counted(url: str, tmp_path: Path) -> None:
    usage = {"input": 3_000, "cacheRead": 11_000, "cacheWrite": 0, "output": 10}
    steps = [build_pi(3), build_pi(4, usage=usage)]
    _, second = drive("pi-extension.ts", url, tmp_path, {"ctx": PI_CONTEXT, "steps": steps})["payloads"]
    assert len(second["messages"]) < len(build_steps(4)), "fourteen of sixteen thousand tokens are taken"


@pytest.mark.parametrize(
    ("api", "payload"), [("telex", {"messages": build_steps(20)}), ("openai-responses", {"messages": build_steps(20)})]
)
def test_pi_leaves_a_payload_alone_that_it_does_not_know(api: str, payload: Json, url: str, tmp_path: Path) -> None:
    context = {"model": {"api": api, "id": "m", "contextWindow": 16_000}}
    done = drive("pi-extension.ts", url, tmp_path, {"ctx": context, "steps": [{"payload": payload}]})
    assert done == {"payloads": [None], "notes": []}


# -- opencode ----------------------------------------------------------------------------------------------------------


def build_opencode(count: int, tokens: int = 0) -> list[Json]:
    """The same conversation as opencode holds it: a message for each step, with the result in the call's part."""
    model = {"providerID": "p", "modelID": "m"}
    info = {
        "id": "msg_0",
        "sessionID": "ses_1",
        "role": "user",
        "time": {"created": 1},
        "agent": "build",
        "model": model,
    }
    text = {"id": "prt_0", "type": "text", "text": "Look at all the parts. Never touch config.py."}
    out: list[Json] = [{"info": info, "parts": [text]}]
    for number in range(count):
        state = {"status": "completed", "input": {"path": f"src/part{number}.py"}, "title": "", "metadata": {}}
        state |= {"output": f"part {number}: {WORDS}", "time": {"start": 1, "end": 2}}
        parts = [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": f"Step {number}."},
            {"type": "tool", "callID": f"c{number}", "tool": "look", "state": state},
            {"type": "step-finish", "reason": "tool-calls"},
        ]
        counted = {"input": tokens, "output": 10 if tokens else 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        answer = {"id": f"msg_{number + 1}", "sessionID": "ses_1", "role": "assistant", "tokens": counted}
        out.append({"info": answer, "parts": parts})
    return out


PROVIDERS = [{"id": "p", "models": {"m": {"limit": {"context": 16_000, "output": 1_000}}}}]


def test_opencode_gets_the_view_and_what_stays_is_the_same_object(url: str, tmp_path: Path) -> None:
    steps = [build_opencode(count) for count in (2, 10, 20)]
    done = drive("opencode-plugin.ts", url, tmp_path, {"providers": PROVIDERS, "steps": steps})
    short, middle, long = done["answers"]
    assert short["messages"] == steps[0]
    assert middle["same"] == list(range(11))
    assert len(json.dumps(long["messages"])) < 0.6 * len(json.dumps(steps[2]))
    new = [message for message, at in zip(long["messages"], long["same"], strict=True) if at < 0]
    summaries = [each for each in new if each["info"]["role"] == "user"]
    assert summaries
    assert all(each["parts"][0]["synthetic"] and each["info"]["model"]["modelID"] == "m" for each in summaries)
    assert "Never touch config.py." in json.dumps(long["messages"])
    assert long["same"][-1] == 20
    kept = [at for at in long["same"] if at >= 0]
    assert kept == sorted(kept)
    assert [note["level"] for note in done["notes"]] == ["info"]


def test_opencode_counts_the_prompt_that_no_hook_shows(url: str, tmp_path: Path) -> None:
    steps = [build_opencode(3), build_opencode(4, tokens=14_000)]
    _, second = drive("opencode-plugin.ts", url, tmp_path, {"providers": PROVIDERS, "steps": steps})["answers"]
    assert second["messages"] != steps[1]


# -- faults ------------------------------------------------------------------------------------------------------------


async def answer_nonsense(scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401 - an ASGI application
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b'{"messages": []}'})


@pytest.mark.parametrize("fault", ["no gateway", "nonsense", "a window of nothing"])
def test_whatever_goes_wrong_the_messages_stay_and_the_reason_is_told_once(
    fault: str, url: str, tmp_path: Path
) -> None:
    context: Json = {"model": {**PI_CONTEXT["model"], "contextWindow": 0.5 if fault.startswith("a") else 16_000}}
    providers = [{"id": "p", "models": {"m": {"limit": {"context": context["model"]["contextWindow"]}}}}]
    pi_steps, steps = [build_pi(20), build_pi(21)], [build_opencode(20), build_opencode(21)]
    with serve_application(answer_nonsense) as nonsense:
        address = {"no gateway": "http://127.0.0.1:9", "nonsense": nonsense}.get(fault, url)
        pi = drive("pi-extension.ts", address, tmp_path, {"ctx": context, "steps": pi_steps})
        opencode = drive("opencode-plugin.ts", address, tmp_path, {"providers": providers, "steps": steps})
    assert pi["payloads"] == [None, None]
    assert [answer["messages"] for answer in opencode["answers"]] == steps
    for notes in (pi["notes"], opencode["notes"]):
        (note,) = notes
        assert "the conversation is sent as it is, since http://127.0.0.1:" in json.dumps(note)
