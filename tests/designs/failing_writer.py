"""A provider on this machine for long work in several tasks, whose summary model fails for a while and recovers.

It is the provider of `tests.agent.working`, which refuses what a real one refuses. Here the user comes back every few
steps, results are of many forms, and what writes the summaries is a model of its own with a window of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, cycle

from msgspec.structs import replace

from tenfold.core.meter.counters import BytePairCounter
from tests.agent.working import Provider, serve_summary
from tests.models.loopback import Got, Served
from tests.models.provider_rules import find_refusal

TOLD = (
    "The parts of each area were looked at in turn, one after the other. The tools gave what stands in them: code, "
    "runs of tests, lists and logs. Nothing was changed, and nothing is open besides the task at hand."
)
"""A summary without headings."""
WRITER, WRITER_WINDOW = "openai:gpt-4o-mini", 128_000
GARBAGE = "qwrt zxcvb plmko vfrtg "
FAULTS = (
    Served(status=500, error="the server had an error"),
    Served("late", hang=600),
    Served(GARBAGE * 30),
    Served(""),
    Served(status=401, error="the key is not valid"),
    Served("x"),
    Served(GARBAGE * 300, "length"),
    Served(status=529, error="overloaded"),
    Served("", "tool", call=("w", "look", {"path": "a"})),
    Served("I cannot help with that.", "refusal"),
)
"""What the summary model answers in turn while it fails."""
UNCOUNTED = frozenset({"signature", "data", "encrypted_content", "id", "call_id", "tool_call_id", "tool_use_id"})
"""Fields that no tokens are counted for."""
O200K, CL100K = BytePairCounter("o200k"), BytePairCounter("cl100k")
"""OpenAI's vocabulary, and one that Anthropic's model does not have either, but counts more than."""
STEPS, STEPS_OF_TASK, FAILING_STEPS = 300, 25, 100
RULE = "Never touch lib/old.py."
TASKS = tuple(
    f"Task {n}: please look at every part of area {n}." + (f" {RULE}" if n == 1 else "")
    for n in range(1, STEPS // STEPS_OF_TASK + 1)
)


class TaskProvider(Provider):
    """Works `STEPS_OF_TASK` steps for each task, then says that the task is done.

    Until `FAILING_STEPS` steps are made and one has failed, each request for a summary is answered with the next of
    `FAULTS`. `good` is how often a summary was asked for and given after that, `failed` how often one was refused.
    """

    def __init__(self, window: int) -> None:
        super().__init__(STEPS, window, also=self._end_task, thinks=True, several=20, kept=1)
        self._faults = cycle(FAULTS)
        self._known: dict[tuple[str, str], int] = {}
        self._ended = 0
        self.failed = self.good = 0
        self.forgotten: list[str] = []

    @property
    def is_failing(self) -> bool:
        """Whether the summary model fails at this moment: it does once at least, however late it is asked."""
        return self.done < FAILING_STEPS or not self.failed

    def measure(self, got: Got) -> int:
        """How many tokens a request has: those of all its texts, and four for each object in it."""
        counter, factor = (CL100K, 1.2) if got.api == "messages" else (O200K, 1.0)
        values: list[object] = [got.body]
        total = 0
        while values:
            value = values.pop()
            if isinstance(value, str):
                if (counter.name, value) not in self._known:
                    (self._known[counter.name, value],) = counter.count([value])
                total += self._known[counter.name, value]
            elif isinstance(value, dict):
                total += 4
                values += [each for name, each in value.items() if name not in UNCOUNTED]
            elif isinstance(value, list):
                values += value
        return int(total * factor)

    def _serve_request(self, got: Got) -> Served:
        if got.model != WRITER.partition(":")[2]:
            return super()._serve_request(got)
        size = self.measure(got)
        broken = find_refusal(got.api, got.body, issued=self.issued, tokens=size, window=WRITER_WINDOW)
        if broken is not None:
            self.refused.append((self.done, broken))
            return Served(status=broken.status, body=broken.body)
        if self.is_failing:
            self.failed += 1
            return next(self._faults)
        self.good += 1
        given = serve_summary(got)
        return given if "#" in given.text else replace(given, text=TOLD)

    def _end_task(self, done: int, got: Got) -> Served | None:
        task = done // STEPS_OF_TASK
        if done % STEPS_OF_TASK or task <= self._ended:
            if done % 10 == 0:
                prompt = got.prompt
                self.forgotten += [f"{said} at {done}" for said in (RULE, TASKS[self._ended]) if said not in prompt]
            return None
        self._ended = task
        return Served(f"Task {task} is done.", tokens=(self.sizes[-1], 20), call=(f"t{task}", "look", {}))


def iterate_results(size: int) -> Iterator[str]:
    """Results of tools, about `size` characters each, of many forms, with characters that are easily damaged."""
    for n in count(1):
        lines = (_build_code, _build_run, _build_json, _build_log)[n % 4]
        long = size * (3 if n % 17 == 0 else 1)
        text, at = "", 0
        while len(text) < long:
            text, at = text + lines(n, at), at + 1
        yield text + ("\r\n\ttrailing  \n\n" if n % 5 == 0 else "")


def _build_code(n: int, at: int) -> str:
    return f"def part_{n}_{at}(value: int) -> int:  # naïve\n    return value * {at * 37 % 101} + {n}\n\n"


def _build_run(n: int, at: int) -> str:
    return f"tests/test_area{n}.py::test_case_{at} {'FAILED: assert 3 == 4' if at % 40 == 7 else 'PASSED'}\n"


def _build_json(n: int, at: int) -> str:
    return json.dumps({"id": f"item-{n}-{at}", "name": "Zoë – 東京 🚀", "price": at * 7 % 97, "of": n}) + "\n"


def _build_log(n: int, at: int) -> str:
    return f"2026-11-2{n % 10} 10:{at % 60:02}:00 INFO worker-{n}: request {at} took {at * 13 % 400} ms\x1b[0m\n"
