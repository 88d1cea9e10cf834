"""Sessions for the pages: of work with tools, compacted twice, and one whose texts are hostile."""

from __future__ import annotations

from tenfold.core.record.block import Block, Replacement, Substitute
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tests.engine.making import make_reply, make_user_message, make_work

RULE = "Never push to main."
DETAIL = "the port is 8443"
MARKUP = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"><b>bold</b>"
TURNED = "safe\u202egnp.exe\u202c"
HOSTILE_ID = 'a/b?c=<i>"&id=other'


def make_session(store: Store, id_: str = "work", *, namespace: str = DEFAULT_NAMESPACE, steps: int = 30) -> Session:
    """A session with a rule, a detail that is hidden later, and much work."""
    info = SessionInfo(id_, title=f"The work of {id_}", model="gpt-4o", format="pi")
    session = Session.create(SessionAddress(store, id_, namespace), "tenfold", model="gpt-4o", info=info)
    session.append(make_user_message(f"{RULE} Mend the parser; {DETAIL}."), make_reply("I begin."))
    session.append(*make_work(steps))
    return session


def append_summary(session: Session, first: int, last: int, text: str) -> str:
    """Appends a Block over the whole units that these positions lie in, and returns its id."""
    view, conversation = session.view, session.conversation
    units = [unit for unit in view.units if unit.last >= first and unit.first <= last]
    first, last = units[0].first, units[-1].last
    covered = view.get_slice(first, last)
    assert covered is not None
    said = Message("user", (Text(text),), "tenfold")
    replacement = Replacement(first, last, covered, (Substitute(said),), "summary")
    stamps, counter = conversation.stamps, session.policy.counter.name
    newest = conversation.find_newest_block_id()
    block = Block(
        stamps.new_id(), session.leaf, "", stamps.now(), "own", counter, (replacement,), previous_block=newest
    )
    assert conversation.append_result(view.with_facts(block, conversation.collect_facts()))
    return block.id


def make_hostile_session(store: Store) -> Session:
    """A session whose texts try to be markup, to turn around, and to be very long."""
    info = SessionInfo(HOSTILE_ID, title=MARKUP, file=MARKUP, model=MARKUP)
    session = Session.create(SessionAddress(store, HOSTILE_ID), "tenfold", info=info)
    session.append(
        make_user_message(f"Always say {MARKUP}. {TURNED}"),
        Message("assistant", (ToolCall("c1", MARKUP, '{"a": "' + MARKUP.replace('"', "'") + '"}'),), "model"),
        Message("tool", (ToolResult("c1", MARKUP, (Text("x" * 1_000_000),)),), "tool"),
        make_reply(f"{MARKUP} {TURNED}"),
    )
    return session
