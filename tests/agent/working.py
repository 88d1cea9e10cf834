"""A provider on this machine that makes an agent work for many steps, and refuses what a real one would refuse."""

from __future__ import annotations

import json
from collections.abc import Callable

from tenfold.view.rules import Violation, validate
from tests.llm.loopback import Got, Loopback, Served

WIRES = {"chat": "openai-chat", "messages": "anthropic", "responses": "openai-responses"}
DONE = "All of it is done."


class Provider(Loopback):
    """Calls the tool `look` for `steps` steps, then says that it is done. Refuses what is ill-formed or too long.

    A request counts a token for each four characters of its JSON. `also` may answer a request in another way.
    """

    def __init__(self, steps: int, window: int, *, also: Callable[[int, Got], Served | None] | None = None) -> None:
        super().__init__(script=self._served)
        self.steps, self.window, self._also = steps, window, also
        self.done = 0
        self.sizes: list[int] = []
        self.refused: list[tuple[int, list[Violation]]] = []
        self.overflows = 0

    def _served(self, got: Got) -> Served:
        size = len(json.dumps(got.body)) // 4
        broken = validate(got.body.get("messages") or got.body["input"], WIRES[got.api])
        if broken:
            self.refused.append((self.done, broken))
            return Served(status=400, error=str(broken[0]))
        if size > self.window:
            self.overflows += 1
            told = f"This model's maximum context length is {self.window} tokens. However, your messages resulted in "
            return Served(status=400, error=f"{told}{size} tokens. Please reduce the length of the messages.")
        self.sizes.append(size)
        other = self._also(self.done, got) if self._also is not None else None
        if other is not None:
            return other
        self.done += 1
        if self.done > self.steps:
            return Served(DONE, tokens=(size, 20))
        call = (f"n{self.done}", "look", {"path": f"src/part{self.done}.py"})
        return Served(f"Step {self.done} of {self.steps}.", finish="tool", call=call, tokens=(size, 40))


async def look(path: str) -> str:
    """Reads a file.

    Args:
        path: Which one.
    """
    return f"# {path}\n" + "".join(f"{path} line {n}: value = {n * 37 % 101}\n" for n in range(40))
