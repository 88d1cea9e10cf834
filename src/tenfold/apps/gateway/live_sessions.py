"""Prepares requests: finds the session of each, compacts it if it is due, and says what is to be sent instead."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import httpx
from msgspec import Struct
from msgspec.structs import replace

from tenfold.apps.gateway.client_marks import find_client, find_side_reason
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.heavy_requests import HeavyRequests, is_heavy
from tenfold.apps.gateway.lanes import Family, Lane, LaneTable, LaterWork, find_family, has_answer, try_lock
from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.apps.gateway.moving_listings import SetAside, set_listings_aside
from tenfold.apps.gateway.native_compaction import (
    build_answer,
    build_token,
    expand_tokens,
    has_compaction_token,
    remove_trigger,
)
from tenfold.apps.gateway.sent_views import SentView
from tenfold.apps.gateway.stored_responses import ResponseChains
from tenfold.apps.gateway.unchanged import FIRST_MESSAGE, SHADOW, UNKNOWN_PART, explain_check, explain_size
from tenfold.apps.gateway.upstream_model import UpstreamCall, UpstreamModel, choose_summary_models, limit_summary_input
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import RecallMode
from tenfold.config.settings import Config
from tenfold.core.meter.counters import choose_counter
from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.core.text.memoize import MAX_NAME_LENGTH, memoize_short
from tenfold.core.view.fold import View
from tenfold.core.view.units import VisibleMessage
from tenfold.core.wire.marks import get_summary_text
from tenfold.errors import NotFoundError
from tenfold.models.choose import AUTO
from tenfold.recall.expand import open_path
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.session.preparation import Preparer
from tenfold.session.requests import OVERFLOW_SHARE
from tenfold.store.base import SessionInfo, Store

FORWARD_SHARE = 0.5
"""A request that certainly takes less than this share of what is free in the window, and less than what its session is
compacted at, is sent on before its session is looked at."""
OPENING_SHARE = 0.125
"""What the client itself says at the beginning is pinned up to this share of the window."""
MAX_POLICIES = 1_024
"""How many policies are kept, each of a model and a window. The one of a session stays with it."""
MAX_WINDOWS = 1_024
"""How many windows that providers named are remembered. Those learnt first go first."""


class PreparedRequest(Struct, frozen=True):
    """What to send in place of a request.

    `reason` says why it is sent as it came, or why no more of it is hidden than before; with `is_bypass` it should have
    been looked at and could not be. `lane` is None if it belongs to no session. `whole` is the request with everything
    that the original only refers to. `answer`, if any, is the response: nothing is sent then.

    `has_recall` says that the recall tools were added, `aside` what of `whole` is no part of the session. `compaction`
    is the status of the compaction that was due, "" if none was, and `spent` what the models took that wrote for it.
    """

    original: ModelRequest
    sent: ModelRequest
    tenant: str = ""
    lane: Lane | None = None
    whole: ModelRequest | None = None
    answer: bytes = b""
    tokens_before: ProviderTokens = ProviderTokens(0)
    tokens_after: ProviderTokens = ProviderTokens(0)
    spent: ModelCost = ModelCost()
    compaction: str = ""
    reason: str = ""
    is_bypass: bool = False
    has_recall: bool = False
    aside: SetAside | None = None
    pending: LaterWork[PreparedRequest] | None = None


class LiveSessions:
    """The sessions behind a gateway."""

    def __init__(
        self,
        settings: GatewaySettings,
        store: Store,
        config: Config,
        client: httpx.AsyncClient,
        preparer: Preparer | None = None,
    ) -> None:
        """By the `client`, summaries are asked for, and by the `preparer` those that are needed soon."""
        self._settings, self._config, self._client, self._store = settings, config, client, store
        self._answerer = Answerer(preparer=None if settings.summary_model == "none" else preparer)
        self.chains, self.heavy = ResponseChains(), HeavyRequests()
        self._windows: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        # A client may name another model in each request.
        self._find_base_policy = memoize_short(MAX_POLICIES)(self._build_base_policy)
        self._find_policy = memoize_short(MAX_POLICIES)(self._build_policy)
        self._archive = config.load_archive(settings.policy)
        self.lanes = LaneTable(store, self._open_session, namespace=settings.namespace, limit=settings.max_sessions)

    # -- a request -----------------------------------------------------------------------------------------------------

    async def prepare(
        self, request: ModelRequest, headers: Mapping[str, str], tenant: str, call: UpstreamCall
    ) -> PreparedRequest:
        """Finds the session of a tenant's request, compacts it if it is due, and returns what to send."""
        triggered = remove_trigger(request) if not self._settings.shadow else None
        unfolded = await self._unfold(tenant, triggered or request)
        async with self.heavy.hold(unfolded or request) as excess:
            if excess:
                return PreparedRequest(request, request, tenant, reason=excess, is_bypass=True)
            find = partial(_find_place, tenant, headers, request, unfolded, is_demand=triggered is not None)
            place = await asyncio.to_thread(find) if is_heavy(unfolded or request) else find()
            if isinstance(place, str):
                return PreparedRequest(request, request, tenant, reason=place, is_bypass=place == UNKNOWN_PART)
            whole, aside, family = place
            async with self.lanes.take_turn(family):
                lane, forwarded = await self._open_lane(family, whole, call, find_client(headers)), None
                work = partial(self._answer_trigger, lane, request, whole, tenant)
                if triggered is None:
                    forwarded = await self._find_forwarded(lane, whole, tenant, aside)
                    work = partial(self._compact_lane, lane, whole, tenant, aside)
                pending = lane.add_later_work(work)
                if forwarded is not None and lane.session.session.leaf is None:
                    await pending.finish()  # the next request may come to another gateway, which has to find it
            prepared = await pending.start() if forwarded is None else replace(forwarded, pending=pending)
            return prepared if triggered is not None else self._keep_form(prepared, request, whole, aside)

    def _keep_form(
        self, prepared: PreparedRequest, request: ModelRequest, whole: ModelRequest, aside: SetAside | None
    ) -> PreparedRequest:
        """Sends what the client sent if nothing is hidden and the provider knows what it refers to."""
        is_unchanged = prepared.sent is whole and not has_compaction_token(request)
        changed = prepared.sent if aside is None else aside.put_back(prepared.sent)
        sent = request if is_unchanged else changed
        return replace(prepared, original=request, whole=whole, sent=sent, aside=aside)

    async def _unfold(self, tenant: str, request: ModelRequest) -> ModelRequest | None:
        """Returns a request with everything that it only refers to. None if that is not known."""
        whole = self.chains.expand(tenant, request) if request.has_server_state() else request
        whole = self.chains.expand_references(tenant, whole) if whole is not None else None
        if whole is not request:
            return whole
        if has_compaction_token(request):
            return await asyncio.to_thread(expand_tokens, tenant, request, self._read_view)
        return request

    def _read_view(self, session: str, entry: str) -> list[Message]:
        located = self._store.locate(self._settings.namespace, entry)
        if located.session != session:
            raise NotFoundError(f"{entry} is no entry of the session {session}")
        return View.from_path(open_path(self._store, self._settings.namespace, located)).get_messages()

    async def _open_lane(self, family: Family, request: ModelRequest, call: UpstreamCall, client: str) -> Lane:
        lane = None if is_heavy(request) else self.lanes.find_known_lane(family, request)
        if lane is None:
            lane = await asyncio.to_thread(self.lanes.find_lane, family, request, client)
        self._use_call(lane, replace(call, window=self.find_window(family.tenant, request)))
        return lane

    async def _answer_trigger(
        self, lane: Lane, request: ModelRequest, whole: ModelRequest, tenant: str
    ) -> PreparedRequest:
        """Compacts because the client asks its provider to, and returns the answer in the provider's place."""
        prepared = await self._compact_lane(lane, whole, tenant)
        session, outcome = lane.session.session, None
        if (window := self.find_window(tenant, request)) is not None:
            outcome = await lane.session.compact(replace(session.compactor.build_call(window=window), demand="manual"))
        if outcome is None or outcome.status == "nothing":  # the client's limit is lower: it would ask again at once
            reading = await lane.session.take_reading()
            call = session.compactor.build_call(to=max(1, int(OVERFLOW_SHARE * reading.tokens)))
            outcome = await lane.session.compact(replace(call, demand="manual"))
        token = build_token(tenant, lane.id, session.leaf or "")
        answer = build_answer(request, token, (outcome.spent.input_tokens, outcome.spent.output_tokens))
        reason = f"the client asked for it; {outcome.reason}"
        return replace(
            prepared, original=request, answer=answer, compaction=outcome.status, reason=reason, spent=outcome.spent
        )

    async def _find_forwarded(
        self, lane: Lane, request: ModelRequest, tenant: str, aside: SetAside | None
    ) -> PreparedRequest | None:
        """Finds what to send of a request before its session is looked at. None if the session has to say it."""
        prepared = PreparedRequest(request, request, tenant, lane)
        if self._settings.shadow:
            return replace(prepared, reason=SHADOW)
        window = self.find_window(tenant, request)
        with try_lock(lane) as is_free:  # another thread may be writing, and wait for the store
            most = lane.measure_most(request, window) if is_free and window is not None else None
        reserve = request.read_output_limit()
        if most is not None and window is not None and most < self._measure_sure(lane, window, reserve):
            return replace(prepared, reason=explain_size(most, window, reserve))
        view = lane.sent_view if aside is None and lane.is_idle else None
        if view is None or lane.session.session.compactor.lock.is_held:
            return None
        sent = await asyncio.to_thread(self._continue_view, view, lane, request, window)
        is_newest = sent is not None and lane.sent_view is view and lane.is_idle
        return replace(prepared, sent=sent, has_recall=view.has_recall) if is_newest else None

    def _measure_sure(self, lane: Lane, window: int, reserve: int) -> float:
        """Measures below which size a request certainly fits, and its session does not compact."""
        session = lane.session.session
        limits = session.policy.get_limits(
            window, output_reserve=reserve, floor=ProviderTokens(session.conversation.sent_overhead)
        )
        return min(FORWARD_SHARE * (window - reserve), limits.soft)

    def _continue_view(
        self, last: SentView, lane: Lane, request: ModelRequest, window: int | None
    ) -> ModelRequest | None:
        """Continues what was sent for the last request of a session with hidden parts. None if that is not certain.

        It is where the session would not compact, and neither this process nor another has changed it.
        """
        session = lane.session.session
        sent = last.extend(request, session) if last.window == window else None
        return sent if sent is not None and session.conversation.is_current() else None

    async def prepare_again(self, prepared: PreparedRequest, limit: int | None) -> PreparedRequest | str:
        """Compacts a request that the provider refused as too long. Returns why if that does not make it shorter.

        `limit` is how many tokens the provider said that it takes, None if it did not. It is the window from now on.
        """
        lane, asked = prepared.lane, prepared.original
        if limit is not None:
            self.note_window(prepared.tenant, asked, limit)
        if lane is None or self._settings.shadow:
            return prepared.reason
        if prepared.pending is not None:  # what is compacted has to be known
            await prepared.pending.start()
        session = lane.session.session
        call = replace(session.compactor.build_call(window=self.find_window(prepared.tenant, asked)), demand="overflow")
        if call.window is None:
            reading = await lane.session.take_reading()
            call = replace(session.compactor.build_call(to=int(OVERFLOW_SHARE * reading.tokens)), demand="overflow")
        outcome = await lane.session.compact(call)
        if outcome.status != "compacted":
            return outcome.reason
        whole = prepared.whole or asked
        again = await self._compact_lane(lane, whole, prepared.tenant, prepared.aside)
        again = replace(again, compaction=outcome.status, reason=outcome.reason, spent=outcome.spent)
        return self._keep_form(again, asked, whole, prepared.aside)

    async def _compact_lane(
        self, lane: Lane, request: ModelRequest, tenant: str, aside: SetAside | None = None
    ) -> PreparedRequest:
        window, can_recall = self.find_window(tenant, request), self._can_recall(request)
        prepared = await self.compact_request(lane, request, window, aside=aside, can_recall=can_recall)
        return replace(prepared, tenant=tenant)

    async def compact_request(
        self,
        lane: Lane,
        request: ModelRequest,
        window: int | None,
        *,
        aside: SetAside | None = None,
        can_recall: bool = False,
    ) -> PreparedRequest:
        """Has the session of a lane learn of a request, compacts it if it is due, and returns what to send."""
        lane.sent_view = None
        ask = partial(self._ask_session, lane, request, window, aside, can_recall=can_recall)
        has_recall, made = can_recall and lane.is_changed, None
        while True:
            sent, shown, outcome = await ask(has_recall=has_recall)
            if outcome is not None and outcome.status == "compacted":
                made = outcome
            can_recall = can_recall and not (has_recall and outcome is not None and outcome.status == "unsatisfiable")
            if has_recall is (can_recall and sent is not request):
                break
            has_recall = not has_recall  # what is sent has to be what was counted
        if made is not None and made is not outcome:
            outcome = replace(made, reading_after=None)
        lane.is_changed = sent is not request
        lane.note_synced(request)
        prepared = await asyncio.to_thread(self._build_prepared, lane, request, sent, outcome, has_recall=has_recall)
        if prepared.sent is not request and aside is None:  # what stands aside is not there the next time
            lane.sent_view = SentView.build(request, shown, prepared.sent, has_recall=has_recall, window=window)
        reason = explain_check(lane.session.session, outcome, prepared.tokens_after, window, request.model)
        return replace(prepared, reason=reason)

    async def _ask_session(
        self,
        lane: Lane,
        request: ModelRequest,
        window: int | None,
        aside: SetAside | None,
        *,
        can_recall: bool,
        has_recall: bool,
    ) -> tuple[ModelRequest, list[bytes], Outcome | None]:
        """Has the session of a lane learn of a request, with the recall tools if it `has_recall`.

        Returns what to send, the list as the session gave it, and the Outcome of the check, None if it made none. What
        is sent is the request itself if nothing is changed and no tools are added.
        """
        asked, session = request, lane.session.session
        if has_recall:
            asked = await asyncio.to_thread(request.with_tools, RecallTools.build_schemas(request.wire))
        before, earlier = asked.build_mapping(), session.outcome
        if aside is not None:  # it takes its part of the window, as the tools do
            before["tools"] = before.get("tools", "") + aside.text

        async def ask() -> dict[str, Any]:
            if not lane.has_pinned_opening:
                await asyncio.to_thread(self._pin_opening, lane, request, before, window)
            recall: RecallMode = "tool" if can_recall else "none"
            return await lane.session.before_model(before, window=window, wire=request.wire, recall=recall)

        after = await lane.run_on_newest(request, ask)
        sent = await asyncio.to_thread(asked.with_mapping, before, after)
        outcome = session.outcome if session.outcome is not earlier else None
        return request if sent is asked else sent, after[request.list_field], outcome

    def _pin_opening(self, lane: Lane, request: ModelRequest, before: Mapping[str, Any], window: int | None) -> None:
        """Has a session learn of a request before it is compacted for the first time, and pins its opening."""
        session = lane.session.session
        session.requests.sync_request(before, window=window, recall="none", wire=request.wire)
        pin_opening(session, window)
        lane.has_pinned_opening = True

    def _build_prepared(
        self, lane: Lane, request: ModelRequest, sent: ModelRequest, outcome: Outcome | None, *, has_recall: bool
    ) -> PreparedRequest:
        session = lane.session.session
        reading = outcome.reading_after if outcome is not None else None
        reading = reading or session.take_reading(floor=session.conversation.sent_overhead)
        hidden = reading.to_provider_part(lane.count_hidden())
        sent = sent if sent is request else sent.with_cache_mark(request.items)
        return PreparedRequest(
            request,
            sent,
            lane=lane,
            tokens_before=reading.tokens + hidden,
            tokens_after=reading.tokens,
            spent=outcome.spent if outcome is not None else ModelCost(),
            compaction=outcome.status if outcome is not None and outcome.status != "nothing" else "",
            has_recall=has_recall,
        )

    def _can_recall(self, request: ModelRequest) -> bool:
        """Whether the recall tools are added to a request once something of it is hidden."""
        is_inside = self._settings.recall == "inside" and not self._settings.shadow
        return is_inside and request.can_take_tools((SEARCH, READ, EXPAND))

    def open_recall(self, lane: Lane) -> RecallTools:
        """Opens the recall tools of a lane: they look things up in its own line of the conversation alone."""
        address = lane.session.session.address
        return RecallTools(
            address.store,
            address.namespace,
            address.session,
            count=lane.session.session.policy.counter.count,
            head=address.head,
            is_path_only=True,  # other branches may be of other users of the same key
        )

    def note_window(self, tenant: str, request: ModelRequest, limit: int) -> None:
        """Remembers the window that the provider named last for a model, in tokens, until the gateway ends."""
        key = (tenant, request.wire, request.model)
        if len(request.model) <= MAX_NAME_LENGTH:
            self._windows[key] = limit
            self._windows.move_to_end(key)
        if len(self._windows) > MAX_WINDOWS:
            self._windows.popitem(last=False)

    def find_window(self, tenant: str, request: ModelRequest, given: int | None = None) -> int | None:
        """Returns the window of a request's model: the known one, or what the provider named, if that is less.

        The one that is `given` comes before those of the settings and of the model.
        """
        known = given or self._settings.window or find_window(request.model)
        named = self._windows.get((tenant, request.wire, request.model))
        return min((each for each in (known, named) if each is not None), default=None)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _open_session(self, address: SessionAddress, model: str, info: SessionInfo | None) -> Session:
        policy = self._find_base_policy(model)
        if info is None:
            return Session(address, policy, model=model, answerer=self._answerer, archive=self._archive)
        info = replace(info, window=self._settings.window or 0)
        return Session.create(address, policy, model=model, answerer=self._answerer, info=info, archive=self._archive)

    def _use_call(self, lane: Lane, call: UpstreamCall) -> None:
        """Has a lane's summaries written by the way in which the client reached its model just now."""
        session, choice = lane.session.session, self._settings.summary_model
        if self._settings.shadow or choice == "none":
            return
        writer = session.compactor.answerer.model
        if isinstance(writer, UpstreamModel):
            writer.use_call(call)
        else:
            session.compactor.use_answerer(replace(session.compactor.answerer, model=UpstreamModel(self._client, call)))
        is_own, window = call.is_own_address, call.window
        session.compactor.use_policy(
            self._find_policy(call.model, wire=call.wire, is_own_address=is_own, window=window)
        )

    def _build_base_policy(self, model: str) -> Policy:
        return self._config.build_policy(choose_counter(model or None).counter, self._settings.policy)

    def _build_policy(self, model: str, *, wire: str, is_own_address: bool, window: int | None) -> Policy:
        """Builds a policy whose summaries are written by models of the upstream."""
        base, choice = self._find_base_policy(model), self._settings.summary_model
        call = UpstreamCall(wire, "", {}, model, is_own_address=is_own_address, window=window)
        models = choose_summary_models((choice,) if choice != AUTO else base.summary.models or (AUTO,), call)
        summary = replace(base.summary, models=models)
        return replace(
            base, summary=replace(summary, input_tokens=limit_summary_input(summary, call, base.counter.name))
        )


def pin_opening(session: Session, window: int | None) -> list[str]:
    """Pins the client's own messages before the first answer of the model, oldest first, and returns their ids.

    Clients send these once, and count on them as on a system prompt: Claude Code's CLAUDE.md and Codex's AGENTS.md
    stand there. Call it once the session knows of them and before it is compacted. What is pinned already is left as it
    is. Nothing is pinned where the window is not known.
    """
    if window is None:
        return []
    room = OPENING_SHARE * window / session.take_reading(window=window, floor=session.conversation.sent_overhead).slope
    sizes, pins = session.conversation.get_message_sizes(), session.view.state.pins
    pinned: list[str] = []
    for shown in _list_opening(session):
        room -= sizes[shown.key]
        if room < 0:
            break
        if shown.position not in pins:
            (entry,) = session.conversation.read_entries([shown.position])
            pinned.append(session.pin(entry.id))
    return pinned


def _list_opening(session: Session) -> Iterator[VisibleMessage]:
    for shown in session.view.get_visible_messages():
        if shown.message.role == "assistant":
            return
        is_own = shown.is_original and shown.message.role == "user" and shown.message.origin == "harness"
        if is_own and get_summary_text(shown.message) is None:
            yield shown


def _find_place(
    tenant: str, headers: Mapping[str, str], request: ModelRequest, unfolded: ModelRequest | None, *, is_demand: bool
) -> tuple[ModelRequest, SetAside | None, Family] | str:
    """Returns a request without what is no part of the session, what that is, and whose it is.

    Else why it is part of no session. `unfolded` is the request with all that it refers to. With `is_demand` the client
    asks its provider to compact.
    """
    reason = "" if is_demand else find_side_reason(headers, request)
    if reason or unfolded is None:
        return reason or UNKNOWN_PART
    whole, aside = set_listings_aside(unfolded)
    return (whole, aside, find_family(tenant, headers, whole)) if has_answer(whole) else FIRST_MESSAGE
