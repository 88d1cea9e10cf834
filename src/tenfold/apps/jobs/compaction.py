"""The compaction that a job makes. What a step has stored is not done again after the death of a worker."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.apps.jobs.job import CompactJob
from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import Effects
from tenfold.config.settings import Config
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Answer, Ask, EngineResult, Outcome, SummaryAsk
from tenfold.core.record.codec import decode_entry, encode_entry
from tenfold.core.text.redaction import redact
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.errors import NotFoundError, TenfoldError, UsageError
from tenfold.models.choose import resolve_models
from tenfold.models.model import Model
from tenfold.models.retry import RetryRule
from tenfold.recall.expand import open_path
from tenfold.session import Session, SessionAddress, Stamps
from tenfold.session.compactor import LEASE_SECONDS
from tenfold.session.drive import Answerer, Finished, advance, call_model
from tenfold.store.base import Store
from tenfold.store.ids import IDS, get_current_time

ModelFinder = Callable[[Sequence[str]], Model]
"""Opens the models that write summaries, the first one and its fallbacks. Raises `UsageError` where it cannot."""
LOG = logging.getLogger("tenfold.jobs")
JOB_RETRIES = RetryRule(max_pause=300.0)
"""A job waits as long as the provider says, up to five minutes: it takes the place of another meanwhile."""
_BUSY = "another process is compacting this session"
_IDS = 16
"""Ids that are drawn at the beginning of a job: a Block takes one, and an Attempt."""


class Steps(Protocol):
    """What stores the steps of a job: `DBOS` in a worker."""

    def run(self, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON
        """Does a step and stores what it returns, as JSON. If it is stored already, returns that."""
        ...

    def sleep(self, seconds: float) -> None:
        """Waits. A worker that goes on with the job waits for the rest only."""
        ...


class JobResult(Struct, frozen=True, omit_defaults=True):
    """What a compaction job returns.

    `summary` is a line about it, and `entry` the Block or Attempt that is yet to be appended. `leaf` is the entry that
    its view ended with, and `purges` is how many purges the session had had when that was read.
    """

    summary: str
    outcome: Outcome
    leaf: str = ""
    entry: str = ""
    purges: int = 0

    def decode(self) -> EngineResult:
        """Returns it as the engine returned it."""
        return EngineResult(self.outcome, decode_entry(b64decode(self.entry)) if self.entry else None)

    def open_view(self, store: Store, namespace: str) -> View:
        """Opens the view that it was planned on, by the path from the root to its last entry."""
        path = open_path(store, namespace, store.locate(namespace, self.leaf)) if self.leaf else Path(length=0)
        path.purges = self.purges
        return View.from_path(path)


def run_compaction(
    job: CompactJob, id: str, steps: Steps, store: Store, config: Config, find_model: ModelFinder
) -> JobResult:
    """Compacts as the job says. Raises `NotFoundError` if the session is gone."""
    begun = steps.run("begin", lambda: _begin(job, store))
    ids = iter(begun["ids"])
    stamps = Stamps(new_id=lambda: next(ids), now=lambda: begun["time"])
    session, by_code = _open_session(job, store, config, stamps, begun["leaf"], find_model)
    compactor = session.compactor
    call = replace(
        compactor.build_call(window=job.window, floor=job.floor),
        demand="manual",
        to=job.to,
        output_reserve=job.output_reserve,
        recall=job.recall,
        run=job.run,
        focus=job.focus,
        has_before_hooks=False,
    )
    effects, view = compactor.get_effects(call, by_code=by_code)
    writer = _StoredAnswers(session, id, steps, can_wait=job.appends)
    try:
        result = _drive(effects, writer.answer)
    finally:
        writer.release()
    result = replace(result, outcome=_explain_writer(result.outcome, by_code))
    if not job.appends:
        steps.run("note", lambda: _note_cost(job, store, config, result, begun["ids"][-1]))
        entry = b64encode(encode_entry(result.entry)).decode() if result.entry is not None else ""
        return JobResult(_describe(result.outcome), result.outcome, begun["leaf"], entry, view.path.purges)
    outcome = steps.run("append", lambda: msgspec.to_builtins(_append(job, store, config, result, view, call)))
    return JobResult(_describe(final := msgspec.convert(outcome, Outcome)), final, begun["leaf"])


def _begin(job: CompactJob, store: Store) -> dict[str, Any]:
    """Says what the job works on. Whoever goes on with it works on the same, and gives entries the same ids."""
    heads = store.read_heads(job.namespace, job.session)
    if not job.leaf and job.head not in heads:
        raise NotFoundError(f"session {job.session} has no head {job.head!r} with entries")
    leaf = job.leaf or heads[job.head]
    return {"leaf": leaf, "time": get_current_time(), "ids": [IDS.generate() for _ in range(_IDS)]}


def _open_session(
    job: CompactJob, store: Store, config: Config, stamps: Stamps, leaf: str, find_model: ModelFinder
) -> tuple[Session, str]:
    """Opens the session where the view ends with `leaf`. Returns also why no model can write, "" if one can."""
    policy = config.build_policy(choose_counter(job.model or None).counter, job.policy)
    answerer, by_code = Answerer(), ""
    if models := resolve_models(policy.summary.models, job.model):
        try:
            answerer = Answerer(model=find_model(models))
        except UsageError as exc:
            by_code = redact(str(exc))
            LOG.warning("no model can write the summary of a job: %s", by_code)
    else:
        by_code = "the worker's settings name none (TENFOLD_MODEL, or model under [tenfold])"
    address = SessionAddress(store, job.session, job.namespace, job.head)
    session = Session(address, policy, model=job.model, answerer=answerer, stamps=stamps)
    if session.leaf != leaf:
        path = open_path(store, job.namespace, store.locate(job.namespace, leaf))
        session.compactor.move_to(path, (), expected=session.leaf)
    return session, by_code


def _drive(effects: Effects, answer: Callable[[Ask], Answer]) -> EngineResult:
    step = advance(effects)
    while not isinstance(step, Finished):
        step = advance(effects, tuple(answer(ask) for ask in step))
    return step.value


class _StoredAnswers:
    """Answers Asks. What a model has written is stored, so that it is not asked for it twice."""

    def __init__(self, session: Session, id: str, steps: Steps, *, can_wait: bool) -> None:
        self._address, self._id, self._steps, self._can_wait = session.address, id, steps, can_wait
        self._answerer = session.compactor.get_redo_answerer()

    def answer(self, ask: Ask) -> Answer:
        if not isinstance(ask, SummaryAsk):
            return self._answerer.answer(ask)
        calls = JOB_RETRIES.schedule_calls(ask)
        pause = next(calls)
        while True:
            if pause:
                self._steps.sleep(pause)
            try:
                pause = calls.send(self._ask_once(ask))
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer

    def _ask_once(self, ask: SummaryAsk) -> Answer:
        question = sha256(msgspec.json.encode(ask)).hexdigest()
        stored = self._steps.run("ask a model", lambda: {"asked": question, "answer": self._call(ask)})
        if stored["asked"] != question:
            return Answer(error="the session or the settings changed while one worker took over from another")
        return msgspec.convert(stored["answer"], Answer)

    def _call(self, ask: SummaryAsk) -> Any:  # noqa: ANN401 - an Answer as JSON
        model = self._answerer.model
        if model is None:
            return msgspec.to_builtins(Answer(error="no model is configured"))
        if self._take_lease():
            return msgspec.to_builtins(call_model(model, ask))
        if not self._can_wait:  # whatever the other one writes, this is not needed any more
            raise TenfoldError(_BUSY)
        return msgspec.to_builtins(Answer(error=_BUSY, retryable=True, retry_after=LEASE_SECONDS / 2))

    def _take_lease(self) -> bool:
        """Takes the lease for the job, whichever worker does it."""
        address, now = self._address, get_current_time()
        names = (address.namespace, address.session, address.head, self._id)
        return address.store.take_lease(*names, now=now, until=now + LEASE_SECONDS * 1_000_000)

    def release(self) -> None:
        """Gives the lease back, also one that a worker took which died since."""
        address = self._address
        address.store.drop_lease(address.namespace, address.session, address.head, self._id)


def _note_cost(job: CompactJob, store: Store, config: Config, result: EngineResult, id: str) -> None:
    """Notes what models took, unless a worker that died since has: nobody may ever use what they wrote."""
    if not _is_stored(store, job.namespace, id):
        policy = config.build_policy(choose_counter(job.model or None).counter, job.policy)
        address = SessionAddress(store, job.session, job.namespace, job.head)
        Session(address, policy, model=job.model).conversation.note_prepared(result.entry, id=id)


def _append(job: CompactJob, store: Store, config: Config, result: EngineResult, view: View, call: Call) -> Outcome:
    """Appends what the engine returned where the head is now, unless it was appended by a worker that died since."""
    if result.entry is not None and _is_stored(store, job.namespace, result.entry.id):
        return result.outcome
    policy = config.build_policy(choose_counter(job.model or None).counter, job.policy)
    address = SessionAddress(store, job.session, job.namespace, job.head)
    session = Session(address, policy, model=job.model, archive=config.load_archive(job.policy))
    return session.compactor.apply_result(result, view, call)


def _is_stored(store: Store, namespace: str, entry: str) -> bool:
    try:
        return store.locate(namespace, entry).entry.id == entry
    except NotFoundError:
        return False


def _explain_writer(outcome: Outcome, by_code: str) -> Outcome:
    """Says in the notes why code wrote a summary, unless they say it."""
    if outcome.status != "compacted" or not by_code or any(by_code in note for note in outcome.notes):
        return outcome
    return replace(outcome, notes=(*outcome.notes, f"no model was asked for a summary: {by_code}"))


def _describe(outcome: Outcome) -> str:
    sizes = f"{outcome.tokens_before:,} -> {outcome.tokens_after:,} tokens" if outcome.status == "compacted" else ""
    notes = "; ".join(outcome.notes)
    return redact("; ".join(filter(None, (f"{outcome.status}: {sizes or outcome.reason}", notes))))
