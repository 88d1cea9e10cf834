"""What the tests of `tiers` share: a good summary, talk, and work with large outputs."""

from __future__ import annotations

from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.message import Message
from tenfold.designs.tiers.policy import HEADINGS
from tests.engine.making import FILLER, make_call, make_reply, make_result, make_system_message, make_user_message

COUNTER = CharacterCounter()
SEVEN = HEADINGS
GOOD = "\n".join(f"{heading}\nThe work goes on as planned.\n" for heading in SEVEN)


def make_talk(turns: int = 30, size: int = 12) -> list[Message]:
    out = [make_system_message()]
    for n in range(turns):
        out += [
            make_user_message(f"{n}: please look at lib/part{n}.py. {FILLER * size}"),
            make_reply(f"{n}: {FILLER * size}"),
        ]
    return out


def count_total(messages: list[Message]) -> int:
    return sum(measure_messages(messages, COUNTER))


def make_chat_list(turns: int) -> list[dict[str, object]]:
    return [
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} {FILLER * 12}"} for n in range(2 * turns + 1)
    ]


def make_mixed_history() -> list[Message]:
    """Outputs that the mechanical tiers can take out, and talk that they cannot."""
    history = make_talk(30, 6)
    for n in range(10):
        history += [make_call(f"c{n}", "run"), make_result(f"c{n}", f"{n}\n" + "output text\n" * 400, name="run")]
    return [*history, *make_talk(4, 6)[1:]]
