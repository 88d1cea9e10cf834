"""A request for a summary asks for no more than its prompt leaves of the window."""

from __future__ import annotations

import msgspec
import pytest

from tenfold.gateway.upstream_model import UpstreamCall, build_summary_request
from tenfold.record.ask import SummaryAsk

FIELDS = {"openai-chat": "max_tokens", "anthropic": "max_tokens", "openai-responses": "max_output_tokens"}


@pytest.mark.parametrize(("wire", "field"), FIELDS.items())
@pytest.mark.parametrize(("prompt", "most"), [(40_000, 2_650), (54_000, 2_000), (58_000, 1_450), (400, 16_000)])
def test_the_room_to_think_is_what_the_prompt_leaves(wire: str, field: str, prompt: int, most: int) -> None:
    ask = SummaryAsk(system="Summarize.", prompt="word " * (prompt // 5), max_tokens=2_000)
    call = UpstreamCall(wire, "http://localhost", {}, "m", window=16_000)
    limit = msgspec.json.decode(build_summary_request(call, ask, "m"))[field]
    assert min(most, 2_000) - 200 <= limit <= most
    assert prompt // 4 + limit < 16_000
    free = msgspec.json.decode(build_summary_request(msgspec.structs.replace(call, window=None), ask, "m"))[field]
    assert free == 2_500 + 4_096, "where the window is not known, it is as before"
