"""The fourteen tickets of `desk.py`, step by step. The orders they speak of are those that make_data.py makes."""

from __future__ import annotations

from typing import NamedTuple


class Told(NamedTuple):
    """Marta says something."""

    text: str


class Said(NamedTuple):
    """The agent answers."""

    text: str


class Done(NamedTuple):
    """The agent calls a function."""

    text: str
    function: str
    arguments: dict[str, str]


Step = Told | Said | Done


def find(words: str, text: str = "") -> Done:
    return Done(text, "find_customer", {"words": words})


def orders(customer: str, text: str = "") -> Done:
    return Done(text, "list_orders", {"customer": customer})


def order(number: str, text: str = "") -> Done:
    return Done(text, "get_order", {"order": number})


def track(number: str, text: str = "") -> Done:
    return Done(text, "track", {"order": number})


def products(words: str, text: str = "") -> Done:
    return Done(text, "products", {"words": words})


def note(number: str, what: str) -> Done:
    return Done("", "add_note", {"order": number, "text": f"MK: {what}"})


TICKETS: tuple[tuple[Step, ...], ...] = (
    (
        Told("T-01, Ada Brandt: she moved, W-5001 and W-5003 should go to Birch Street 12, 22100 Lund. Can we?"),
        find("ada brandt", "First whether these orders are hers."), order("W-5001"), order("W-5003"),
        Said("Both are hers and both are packing, so rule 1 allows it. I would change W-5001 and W-5003 to Birch Street 12, 22100 Lund. Yes?"),
        Told("Yes, both."),
        Done("", "change_address", {"order": "W-5001", "street": "Birch Street 12", "city": "Lund", "zip": "22100"}),
        Done("", "change_address", {"order": "W-5003", "street": "Birch Street 12", "city": "Lund", "zip": "22100"}),
        note("W-5001", "address changed on the request of Ada Brandt (T-01)"),
        Told("Wait. She just wrote again: only W-5003 goes to Birch Street. W-5001 is a present and goes to her brother, Harbour Road 8, 34117 Kassel."),
        Done("W-5001 is still packing, so it can be changed again.", "change_address", {"order": "W-5001", "street": "Harbour Road 8", "city": "Kassel", "zip": "34117"}),
        note("W-5001", "address changed again, to her brother in Kassel, on the request of Ada Brandt (T-01)"),
        note("W-5003", "address changed on the request of Ada Brandt (T-01)"), order("W-5001", "Reading it back."),
        Said("W-5001 goes to Harbour Road 8, 34117 Kassel, W-5003 to Birch Street 12, 22100 Lund. T-01 is done."),
    ),
    (
        Told("T-02, Bo Lindqvist says one of the gas stoves from W-5018 leaks. He wants a refund for one."),
        find("lindqvist"), order("W-5018"),
        Said("W-5018 was delivered, paid by card, two gas stoves at 45.00 euros. I would refund 45.00 euros for one to his card, reason \"leaking\". It takes up to five days (rule 5). Shall I?"),
        Told("A leaking stove is a safety matter. Refund both, 90 euros, and ask him not to use either."),
        Done("", "refund", {"order": "W-5018", "cents": "9000", "reason": "one stove leaks, both taken back for safety"}),
        note("W-5018", "both stoves refunded for safety, Bo Lindqvist asked not to use them (T-02)"),
        products("stove", "Is the same stove still being sold?"),
        Said("Refunded 90.00 euros to his card. The gas stove is still on sale, 8 in stock; you may want the warehouse to look at the batch."),
        Told("Good thought, I'll write to the warehouse: batch question, ticket WH-310. You don't need to do anything there."),
    ),
    (
        Told("T-03, Carla Reyes wants to cancel the whole of W-5043."),
        find("carla reyes"), order("W-5043"),
        Said("W-5043 is packing. Rule 2: items can only be cancelled while an order is open, from packing on it needs a return. So I can't cancel it. W-5052 is her only open order."),
        Told("Try anyway, sometimes the state lags behind."),
        Done("Trying with one item, the state decides.", "cancel_item", {"order": "W-5043", "sku": "bag-10"}),
        Said("Refused, as rule 2 says. Nothing was changed. I would answer that she can refuse the parcel or send it back free of charge."),
        Told("OK, answer that. And ask whether she really meant W-5043. She sometimes mixes them up."),
        Said("Draft: \"Dear Carla, W-5043 is being packed and can't be cancelled any more. You can refuse the parcel or send it back free of charge. If you meant W-5052 (the rucksack), that one can still be cancelled: just tell us.\""),
        Told("She did mean W-5052! Cancel the rucksack there."),
        order("W-5052", "Looking at it again before I cancel."),
        Done("Open, one rucksack 45 l.", "cancel_item", {"order": "W-5052", "sku": "pack-45"}),
        note("W-5052", "rucksack cancelled on the request of Carla Reyes (T-03)"),
        Said("W-5052 is empty now; nothing had been charged beyond the card reservation. T-03 is done."),
    ),
    (
        Told("T-04, Deniz Kaya: where is the water filter? He is leaving on Friday and wants to know if it comes before."),
        find("deniz"), orders("C-331", "Four orders; which has the filter?"), track("W-5074"),
        Said("W-5074, in transit with NordPost, parcel 355932384X65, last event \"sorting centre\". I can't promise a date. I would send him the parcel number and say that it was last seen in the sorting centre."),
        Told("Right, no dates. Send that. He also asks whether he can change the poles of W-5065 for the 45 l rucksack."),
        order("W-5065"), products("rucksack"),
        Said("No: rule 4 allows an exchange only for the same or a lower price. The poles are 69.00, the rucksack 149.00 euros. He could return the poles and order the rucksack."),
        Told("Tell him so."), note("W-5065", "exchange poles for rucksack declined, rule 4, asked by Deniz Kaya (T-04)"),
        Said("Answered and noted. T-04 is done."),
    ),
    (
        Told("T-05, Elif Aydin, two sleeping mats R5 from W-5081: one has a hole. She'd like another one, not money."),
        find("elif"), order("W-5081"), products("mat"),
        Said("Four mats R5 are in stock. An exchange in our system swaps the whole position of two, so for one mat I see two ways: refund 89.00 euros so she orders again, or exchange both. Which one?"),
        Told("Exchange both then, we have four."),
        Done("", "exchange", {"order": "W-5081", "sku": "mat-r5", "for_sku": "mat-r5"}),
        note("W-5081", "both mats exchanged for the same, one had a hole, asked by Elif Aydin (T-05)"),
        Said("Done: return label RL-5081-mat-r5, no difference in price. T-05 is done."),
        Told("Hm, she writes that she'd rather keep the good one and only send one back. Leave the exchange as it is, and I'll tell the warehouse to expect one mat only. Put that into a note."),
        note("W-5081", "only one mat will come back, the other one she keeps, agreed with Marta (T-05)"), Said("Noted."),
    ),
    (
        Told("T-06, Greta Holm ordered the sleeping bags of W-5099 too warm; she wants the 10 C ones, if there are two in any colour but orange."),
        find("greta holm"), order("W-5099"), products("sleeping bag"),
        Said("The 10 C bag is there in green only, 7 in stock, 79.00 instead of 129.00 euros. An exchange of both would refund 2 x 50.00 = 100.00 euros to her card. Shall I?"),
        Told("Yes."),
        Done("", "exchange", {"order": "W-5099", "sku": "bag-0", "for_sku": "bag-10"}),
        Done("And the difference.", "refund", {"order": "W-5099", "cents": "10000", "reason": "difference after the exchange of two sleeping bags"}),
        note("W-5099", "two bags 0 C exchanged for 10 C green, 100.00 euros refunded, asked by Greta Holm (T-06)"),
        Said("Exchanged, return label RL-5099-bag-10, 100.00 euros go back to her card."),
    ),
    (
        Told("T-07, Femi Okoro: W-5085 is in transit since the beginning of May. I think it's lost."),
        find("femi okoro"), order("W-5085"), track("W-5085"),
        Said("Last event 3 May, \"sorting centre\". That is 30 days, so rule 6 (ten days) is met: send again or refund 347.00 euros to his wallet. The refund would be above your 200, so I need your yes with the amount."),
        Told("Not yet. NordPost opened a case, NP-77120. Ask him what he prefers, and note the case number."),
        note("W-5085", "lost parcel, NordPost case NP-77120, customer asked whether send again or refund (T-07)"),
        products("tent", "Could we send it again at all?"),
        Said("Noted. The tent for four is in stock (9). T-07 stays open until he answers."),
        Told("And his other two, W-5087 and W-5094? Same carrier."),
        track("W-5087"), track("W-5094"),
        Said("W-5087 was last seen on 8 May (25 days), W-5094 on 24 May (9 days). By rule 6 W-5087 counts as lost as well, W-5094 not before its tenth day. Shall I add W-5087 to the question?"),
        Told("Yes, but only mention it. No note on W-5094."),
        note("W-5087", "no event since 8 May, mentioned to Femi Okoro together with W-5085 (T-07)"), Said("Done, and W-5094 is left alone."),
    ),
    (
        Told("T-08, Ines Duarte wants her money back for the sleeping bag, W-5141, without giving a reason."),
        find("ines"), order("W-5141"),
        Said("Delivered, 129.00 euros by wallet. Rule 3 wants a reason for a refund; for a return within 30 days \"return without reason\" has been used before? I don't know that, so I'd rather ask you."),
        Told("\"Returned within 30 days\" is the wording. It was delivered on 17 May, so she is in time. Refund when the bag is back, not before."),
        Said("Understood: no refund now. I'd note that the refund of 129.00 euros follows when the bag has arrived."),
        Told("Yes. Oh no, wait, the warehouse says it came in this morning. Refund it, 129 euros."),
        Done("", "refund", {"order": "W-5141", "cents": "12900", "reason": "returned within 30 days"}),
        note("W-5141", "refund after return within 30 days, asked by Ines Duarte (T-08)"), Said("129.00 euros are on the way to her wallet, up to two hours. T-08 is done."),
    ),
    (
        Told("T-09, Hugo Marsh claims that he was sent the same tarps twice."),
        find("hugo"), orders("C-359"),
        Said("He is right as far as I can see: W-5122 of 16 May and W-5124 of 24 May hold the same two tarps, both delivered, both on invoice, and W-5133 has two more and is packing. I can't see whether he ordered twice."),
        Told("I'll ask the warehouse. Don't refund anything on these for now, and don't touch W-5133."),
        Said("Nothing will be touched. T-09 waits for you."),
    ),
    (
        Told("T-10, Jonas Weber: change the pan in W-5156 for a titanium mug, he says."),
        find("jonas"), order("W-5156"), products("mug"),
        Said("The mug is 29.00 euros against 24.00 for the pan, and none is in stock. Rule 4 forbids it twice over."),
        Told("Tell him. He also wants one of the sleeping bags out, so only one bag 10 C."),
        Said("I can only cancel a whole position: both bags. W-5156 is open, so both could be cancelled and one ordered again. Shall I cancel both?"),
        Told("No no, leave the bags. Cancel the pan instead, he doesn't want it without the mug."),
        Done("", "cancel_item", {"order": "W-5156", "sku": "pan-18"}),
        note("W-5156", "pan cancelled, mug not available, bags stay, asked by Jonas Weber (T-10)"), order("W-5156", "Reading it back."),
        Said("W-5156 now holds two sleeping bags 10 C for 158.00 euros. T-10 is done."),
    ),
    (
        Told("T-11, Kaja Nowak has a question on W-5170: she wants the invoice address changed after delivery."),
        find("kaja"), order("W-5170"),
        Said("Delivered, so rule 1 says no. Shall I try it nevertheless, or answer her right away?"),
        Told("Answer her. She can get a corrected invoice from billing@example.com."),
        note("W-5170", "address change after delivery declined, sent to billing@example.com, asked by Kaja Nowak (T-11)"), Said("Answered and noted."),
    ),
    (
        Told("T-12, Luca Ferri: the filter of W-5187 does not filter, he says, and he wants 49 euros back, plus something for his trouble."),
        find("luca ferri"), order("W-5187"),
        Said("49.00 euros for the filter, credited on the invoice at once (rule 5). Nothing in the rules provides for more. I would refund 49.00 euros. Yes?"),
        Told("Give him 60, as goodwill."),
        Done("60.00 euros is within what he paid (107.00), so the system will take it.", "refund", {"order": "W-5187", "cents": "6000", "reason": "filter faulty, 11.00 euros of it goodwill"}),
        note("W-5187", "60.00 euros for a faulty filter, 11.00 of it goodwill by Marta, asked by Luca Ferri (T-12)"), Said("Credited. T-12 is done."),
    ),
    (
        Told("T-13, Mina Sato returned everything of W-5202. Refund it all."),
        find("mina sato"), order("W-5202"),
        Said("W-5202 is 476.00 euros, above your limit of 200. I need your explicit yes with the amount."),
        Told("Yes, refund 476 euros on W-5202."),
        Done("", "refund", {"order": "W-5202", "cents": "47600", "reason": "everything returned"}),
        Told("Did I say W-5202? She writes W-5194 now! No. Hold on. It is W-5202, the rucksacks. Sorry."),
        Done("Checking that it is on the right one.", "get_order", {"order": "W-5202"}),
        note("W-5202", "all refunded, 476.00 euros, amount confirmed by Marta, asked by Mina Sato (T-13)"),
        Said("It is on W-5202, two rucksacks 65 l and two mats R3. W-5194 is untouched. T-13 is done."),
    ),
    (
        Told("T-14, the last: Nils Berg wants W-5208 sent to Station Square 41, 81200 Gdynia, and the head lamps out."),
        find("nils berg"), order("W-5208"),
        Said("Open, so both are possible: change the address, cancel the two head lamps (68.00 euros). Shall I do both?"),
        Told("The address yes. The head lamps: not yet, the colour question is still open with him."),
        Done("", "change_address", {"order": "W-5208", "street": "Station Square 41", "city": "Gdynia", "zip": "81200"}),
        note("W-5208", "address changed to Gdynia, head lamps not yet decided, asked by Nils Berg (T-14)"), order("W-5208", "Reading it back."),
        Said("The address is changed, the lamps are still in."),
    ),
)  # fmt: skip
