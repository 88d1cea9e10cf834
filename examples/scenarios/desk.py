"""An afternoon at a support desk: fourteen tickets, and a colleague who changes her mind. Recorded as OpenAI Chat."""

from __future__ import annotations

import json
from pathlib import Path

from examples.recorder.session import Session
from examples.scenarios.desk_tickets import TICKETS, Done, Said, Step, Told

START = 1_748_865_600  # 2025-06-02 12:00 UTC

SYSTEM = """You work at the support desk of a shop for camping gear, together with Marta. You look things up and change orders with
the functions you have; you never make up an order, an amount or a parcel number. Amounts are cents in the functions and
euros when you speak. Before any refund, exchange, cancellation or change of address you say what you are about to do and
wait for Marta's word. Today is 2 June 2025."""


def play(root: Path, project: Path) -> Session:
    """Plays the session in a checkout below `root`, filled with the files of `project`."""
    session = Session("desk", START, cwd="/home/dev/desk", system=" ".join(SYSTEM.split("\n")))
    session.open(root)
    session.checkout.fill(project)
    session.checkout.run("python make_data.py && rm make_data.py")
    _begin(session)
    for ticket in TICKETS:
        for step in ticket:
            _do(session, step)
    _audit(session)
    _end(session)
    return session


def _begin(s: Session) -> None:
    s.add_user("""
        Hi, Marta here. The inbox is full, fourteen tickets. Rules for today:
        - Always read the order before you answer, never trust the number a customer quotes without looking at the name.
        - Every change gets a note on the order that starts with "MK:" and says who asked for it.
        - No refund above 200 euros without my explicit yes with the amount.
        - Do not promise dates to anybody.

        Start by reading the desk's own rules.
    """)
    s.call_desk("", "rules")
    s.say(
        "Read. Seven rules; the ones that will matter most are 1, 2 and 4 (what is possible in which state). Ready for the first ticket."
    )


def _do(s: Session, step: Step) -> None:
    match step:
        case Told(text):
            s.add_user(text)
        case Said(text):
            s.say(text)
        case Done(text, function, arguments):
            s.call_desk(text, function, **arguments)


def _audit(s: Session) -> None:
    s.add_user("""
        Before we close, the monthly check: go through all customers, add up the refunds, and tell me whether any order was refunded
        more than was paid. By customer please, not by memory.
    """)
    s.call_desk("All customers have an example.com address.", "find_customer", words="example.com")
    state = json.loads(s.checkout.root.joinpath("state.json").read_text("utf-8"))
    for customer in state["customers"]:
        s.call_desk("", "list_orders", customer=customer)
    refunds = [(order["id"], refund) for order in state["orders"].values() for refund in order["refunds"]]
    total = sum(refund["cents"] for _, refund in refunds)
    listed = "\n".join(
        f"- {order}: {r['cents'] // 100}.{r['cents'] % 100:02d} euros to {r['to']}, {r['id']}" for order, r in refunds
    )
    s.say(f"""
        {len(state["customers"])} customers, {len(state["orders"])} orders, {len(refunds)} refunds, {total // 100}.{total % 100:02d} euros in all:
{listed}

        No order was refunded more than was paid. W-5099 came closest to a question: its 100.00 euros are the difference of an exchange.
    """)
    s.add_user("Thanks. Keep the total in mind, I need it for the form FIN-22 at the end of the month.")
    s.say(f"Noted: {total // 100}.{total % 100:02d} euros of refunds for FIN-22.")


def _end(s: Session) -> None:
    s.add_user(
        "That was the last one. List what is still open, and read all the orders we touched once more to be sure the notes are there."
    )
    touched = sorted(
        {
            str(a["order"])
            for t in TICKETS
            for d in t
            if isinstance(d, Done)
            for a in [d.arguments]
            if d.function == "add_note"
        }
    )
    for order in touched:
        s.call_desk("", "get_order", order=order)
    s.say(f"""
        All {len(touched)} orders we changed carry a note that starts with "MK:". Still open:
        - T-07, Femi Okoro, W-5085: lost parcel, the carrier NordPost has case NP-77120; he decides between sending again and a refund.
        - T-09, Hugo Marsh: waits for Marta to ask the warehouse about the double order W-5122 and W-5124.
        - T-14, Nils Berg, W-5208: address change to Gdynia is done, the head lamps are for Marta to look at.

        Everything else is answered and closed.
    """)
    s.add_user(
        "Perfect. T-09 I'll do tomorrow. Correction to what I said at the start: from tomorrow on the limit for refunds is 150 euros, not 200. Please keep that in mind."
    )
    s.say("Noted: from tomorrow no refund above 150 euros without your explicit yes with the amount.")
