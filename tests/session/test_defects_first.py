from __future__ import annotations

import asyncio
import pytest
from msgspec.structs import replace

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer, run
from tenfold.engine import Call, compact
from tenfold.errors import StoreUnwritable
from tenfold.record.ask import Answer
from tenfold.record.block import Block
from tenfold.record.entry import Usage
from tests.engine.making import *


def test_engine_without_window():
    verdict = run(compact(view_of(work()), policy(), Call(), bench(), now=1, new_id=new_ids()), Answerer())
    assert verdict.outcome.status == "nothing"


def test_supplied_giant():
    s = opened(work(), policy(models=("m",)), answerer=Answerer(Telling(), before=(lambda c: Answer(text="word " * 20000),)))
    out = s.compact(replace(s.call(to=700), consult=True))
    assert out.tokens_after <= out.tokens_before, out


def test_hooks_asked_by_default():
    seen = []
    s = opened(work(), policy(), answerer=Answerer(before=(seen.append,)))
    s.compact(to=700)
    assert seen


def test_raising_model():
    class Bad:
        def answer(self, ask):
            raise KeyError("choices")
    s = opened(work(), policy(models=("m",)), answerer=Answerer(Bad()))
    assert s.compact(to=700).status == "compacted"


def test_raising_coroutine():
    async def bad(ask):
        raise KeyError("choices")
    s = opened(work(), policy(models=("m",)))
    assert asyncio.run(AsyncSession(s, answer=bad).compact(to=700)).status == "compacted"


def test_usage_goes_to_first_answer():
    s = opened([user("go")])
    s.used(Usage(5000))
    s.sync([user("go"), *read(1, "a.py")])
    assert s.reading(window=10_000).source == "reported"


def test_regenerate_keeps_block():
    hist = work(); 
    s = opened(hist)
    s.compact(to=700)
    s.append(user("next"), said("one answer"))
    small = s.reading(window=100_000).tokens
    s.sync([*hist, user("next")])
    s.sync([*hist, user("next!"), said("other")])
    assert s.view.marks.live
    s.sync([*hist, user("other entirely")])
    assert s.view.marks.live


def test_floor_not_twice():
    s = opened([user("go " * 1000)])
    s.append(said("ok"), usage=Usage(6000))
    got = s.reading(window=100_000, floor=5000)
    assert abs(got.tokens - 6000) < 100, got


def test_failed_append_leaves_no_sizes():
    s = opened([user("go")])
    good = s.place.store
    class Full:
        def __getattr__(self, n): return getattr(good, n)
        def append(self, *a, **k): raise StoreUnwritable("full")
    s._head.store = Full()
    with pytest.raises(StoreUnwritable):
        s.append(user("word " * 5000))
    s._head.store = good
    s.append(user("b"))
    assert s.reading(window=1000).tokens < 100


def test_facts_survive_block_that_covers_less():
    pass


def test_open_step_guard():
    s = opened([*work(), called("x")])
    call = replace(s.call(window=3000), demand="overflow")
    a = s.compact(call)
    n = len(entries(s))
    b = s.compact(call)
    assert len(entries(s)) == n, (a, b)


def test_append_nothing():
    s = opened([user("go")])
    assert s.append() == []


def test_target_missed_by_window():
    s = opened([*work(), user("please " * 1000)])
    out = s.compact(window=4000)
    print(out)
    assert out.status == "compacted"
    assert out.target_missed


class Bytes:
    name = "bytes"
    def count(self, texts): return [len(t.encode()) for t in texts]


@pytest.mark.parametrize("to", [2500, 5000, 9000, 16000, 30000])
def test_custom_counter_bound(to):
    v = view_of(work())
    from tenfold.engine import preview
    b = bench(Bytes())
    p = policy(Bytes())
    _, plan = preview(v, p, Call(to=to), b)
    verdict = run(compact(v, p, Call(to=to), b, now=1, new_id=lambda: "0192b6a0-1111-7222-8333-444455556666"), Answerer())
    assert isinstance(verdict.entry, Block)
    assert verdict.outcome.tokens_after <= plan.tokens_after
    for r in verdict.entry.replacements:
        assert len(r.sizes) == len(r.show)


def test_engine_without_window_after_block():
    s = opened(work()); assert s.compact(to=700).status == "compacted"
    verdict = run(compact(s.view, policy(), Call(), bench(), now=1, new_id=new_ids()), Answerer())
    assert verdict.outcome.status == "nothing"
