"""What a compaction writes in place of messages holds no secret of theirs: summaries, stubs, one-line steps."""

from __future__ import annotations

import json

import pytest

from tenfold import compact
from tenfold.policies import POLICIES

TOLD, PRINTED, SAID = "Zx9Qw7Er5Ty3Ui1Op0As", "Lk8Jh6Gf4Ds2Aq1Mn3Bv", "Po5Iu7Yt9Re1Wq3Zx2Cv"
COMMAND = f"deploy --region north --token {TOLD} --verbose"
OUTPUT = f"API_KEY={PRINTED}\n" + "the deployment goes on as planned\n" * 40
REQUEST = f"Never print it, but the password: {SAID} opens the staging server. " + "Look at the logs first. " * 40


def step(number: int, command: str, output: str) -> list[dict[str, object]]:
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
    *step(0, COMMAND, OUTPUT),
    *(m for n in range(1, 30) for m in step(n, f"cat notes/{n}.txt", f"note {n}\n" + "as it was before\n" * 60)),
    {"role": "user", "content": "go on"},
]


@pytest.mark.parametrize("target", [1_200, 2_400, 4_800, 7_200])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_what_replaces_messages_holds_none_of_their_secrets(policy: str, target: int) -> None:
    made = compact(GIVEN, to=target, model="gpt-4o", format="openai-chat", policy=policy)
    written = [json.dumps(message) for message in made.messages if message not in GIVEN]
    assert written
    for secret in (TOLD, PRINTED, SAID):
        assert [text for text in written if secret in text] == []
