"""The support desk's functions, each a command that prints JSON. Refuses what the shop's rules do not allow."""

import argparse
import json
import sys

STATE = "state.json"
RULES = """Rules of the desk
1. An address can be changed while an order is open or packing, not later.
2. Items can be cancelled while an order is open. From packing on a return is needed.
3. A refund needs a reason and may not exceed what was paid less earlier refunds.
4. An exchange is for the same product in another colour, or for a product of the same or a lower price; the difference is refunded.
5. Money goes back the way it came. Wallets take up to 2 hours, cards 5 days, invoices are credited at once.
6. Deliveries that are lost: wait 10 days after the last event, then send again or refund, as the customer likes.
7. Every change gets a note on the order that says who asked for it.
"""


class Refused(Exception):
    pass


def find_customer(state, words):
    words = words.lower().split()
    found = [c for c in state["customers"].values() if all(w in f"{c['name']} {c['email']} {c['id']}".lower() for w in words)]
    return {"found": len(found), "customers": found}


def get_order(state, order):
    return wanted(state, order)


def list_orders(state, customer):
    return [wanted(state, order) for order in state["customers"][customer]["orders"]]


def track(state, order):
    return wanted(state, order)["parcel"] | {"order": order}


def products(state, words):
    words = words.lower().split()
    return [p for p in state["products"].values() if all(w in f"{p['name']} {p['sku']}".lower() for w in words)]


def rules(state):
    return {"rules": RULES.splitlines()[1:]}


def change_address(state, order, street, city, zip):
    found = wanted(state, order)
    if found["status"] not in {"open", "packing"}:
        raise Refused(f"{order} is {found['status']}: the address can only be changed while it is open or packing (rule 1)")
    found["address"] = {"street": street, "city": city, "zip": zip}
    return {"order": order, "address": found["address"]}


def cancel_item(state, order, sku):
    found = wanted(state, order)
    if found["status"] != "open":
        raise Refused(f"{order} is {found['status']}: items can only be cancelled while it is open (rule 2)")
    found["items"] = [item for item in found["items"] if item["sku"] != sku]
    found["total_cents"] = sum(item["price_cents"] * item["quantity"] for item in found["items"])
    return {"order": order, "items": found["items"], "total_cents": found["total_cents"]}


def refund(state, order, cents, reason):
    found = wanted(state, order)
    left = found["total_cents"] - sum(r["cents"] for r in found["refunds"])
    if int(cents) > left:
        raise Refused(f"{order}: {cents} cents are more than the {left} that are left of what was paid (rule 3)")
    number = f"RF-{len(state['log']) + 2040}"
    found["refunds"].append({"id": number, "cents": int(cents), "reason": reason, "to": found["paid_by"]})
    return {"refund": number, "order": order, "cents": int(cents), "to": found["paid_by"], "left_cents": left - int(cents)}


def exchange(state, order, sku, for_sku):
    found = wanted(state, order)
    old = next((item for item in found["items"] if item["sku"] == sku), None)
    if old is None:
        raise Refused(f"{order} has no {sku}; it has {', '.join(item['sku'] for item in found['items'])}")
    new = state["products"][for_sku]
    if new["price_cents"] > old["price_cents"]:
        raise Refused(f"{for_sku} costs {new['price_cents']} cents, more than the {old['price_cents']} of {sku} (rule 4)")
    if new["stock"] < old["quantity"]:
        raise Refused(f"{for_sku}: {new['stock']} in stock, {old['quantity']} needed")
    new["stock"] -= old["quantity"]
    difference = (old["price_cents"] - new["price_cents"]) * old["quantity"]
    old.update(sku=for_sku, name=new["name"], price_cents=new["price_cents"])
    return {"order": order, "item": old, "difference_cents": difference, "return_label": f"RL-{order[2:]}-{for_sku}"}


def add_note(state, order, text):
    wanted(state, order)["notes"].append(text)
    return {"order": order, "notes": wanted(state, order)["notes"]}


def wanted(state, order):
    if order not in state["orders"]:
        raise Refused(f"there is no order {order}")
    return state["orders"][order]


COMMANDS = {f.__name__: f for f in (find_customer, get_order, list_orders, track, products, rules, change_address, cancel_item, refund, exchange, add_note)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=COMMANDS)
    name, rest = sys.argv[1], sys.argv[2:]
    arguments = {rest[i].removeprefix("--").replace("-", "_"): rest[i + 1] for i in range(0, len(rest), 2)}
    with open(STATE, encoding="utf-8") as file:
        state = json.load(file)
    try:
        answer = COMMANDS[name](state, **arguments)
    except Refused as error:
        print(json.dumps({"error": str(error)}, indent=1))
        return 1
    state["log"].append([name, arguments])
    with open(STATE, "w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)
    print(json.dumps(answer, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
