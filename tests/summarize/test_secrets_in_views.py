"""What a compaction writes in place of messages holds no secret of theirs: summaries, stubs, one-line steps."""

from __future__ import annotations

import json

import pytest

from tenfold import compact

TOLD, PRINTED, SAID = "Zx9Qw7Er5Ty3Ui1Op0As", "Lk8Jh6Gf4Ds2Aq1Mn3Bv", "Po5Iu7Yt9Re1Wq3Zx2Cv"
COMMAND = f"deploy --region north --token {TOLD} --verbose"
OUTPUT = f"API_KEY={PRINTED}\n" + "the deployment goes on as planned\n" * 40
REQUEST = f"Never print it, but the password: {SAID} opens the staging server. " + "Look at the logs first. " * 40


def make_step(number: int, command: str, output: str) -> list[dict[str, object]]:
    call = {"name": "bash", "arguments": json.dumps({"command": command})}
    return [
        {
            "role": "assistant",
            "content": f"With the password: {SAID} I can deploy." if number == 0 else None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


GIVEN: list[dict[str, object]] = [
    {"role": "user", "content": "See whether the deployment went well, and mend what broke."},
    {"role": "assistant", "content": "With what shall I begin?"},
    {"role": "user", "content": REQUEST},
    {"role": "assistant", "content": f"I note that the password: {SAID} is not to be printed."},
    {"role": "user", "content": "begin"},
    *make_step(0, COMMAND, OUTPUT),
    *(m for n in range(1, 30) for m in make_step(n, f"cat notes/{n}.txt", f"note {n}\n" + "as it was before\n" * 60)),
    {"role": "user", "content": "go on"},
]


HEX, UUID = "9f86d081884c7d659a2feaa0c55ad015", "3f1c2b1a-9d8e-4f7a-b6c5-0123456789ab"


@pytest.mark.parametrize(
    ("arguments", "output", "secret"),
    [
        ({"username": "bob", "password": "Tr0ub4dor9x3"}, "logged in", "Tr0ub4dor9x3"),
        ({"auth": {"apiKey": [HEX]}}, "ok", HEX),
        ({"client_secret": UUID}, "ok", UUID),
        ({"name": "STRIPE_KEY", "value": PRINTED}, "ok", PRINTED),
        ({"name": "x"}, f"api_key: {HEX}\nregion: eu\n", HEX),
        ({"name": "x"}, json.dumps({"token": HEX, "user": "bob"}, indent=2), HEX),
        ({"command": f"curl -H 'X-Api-Key: {HEX}' https://db.local/c"}, "boom\nexit code: 1", HEX),
        ({"name": "x"}, "as it was\n" * 700 + f"token: {HEX}\n" + "as it was\n" * 400, HEX),
    ],
)
def test_a_secret_is_known_by_the_label_it_stood_behind(arguments: dict[str, object], output: str, secret: str) -> None:
    call = {"name": "sign_in", "arguments": json.dumps(arguments)}
    done = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "s", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "s", "content": output},
    ]
    given = [*GIVEN[:1], *GIVEN[7:13], *done, *GIVEN[13:]]
    made = compact(given, to=1_500, model="gpt-4o", format="openai-chat")
    written = [json.dumps(message) for message in made.messages if message not in given]
    assert written
    assert [text for text in written if secret in text] == []
