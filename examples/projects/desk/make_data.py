"""Makes state.json: products, customers, orders and parcels of a small shop for camping gear."""

import json

PRODUCTS = [
    ("tent-2p", "Tent, two persons", 18900), ("tent-4p", "Tent, four persons", 27900), ("mat-r3", "Sleeping mat R3", 5900),
    ("mat-r5", "Sleeping mat R5", 8900), ("bag-0", "Sleeping bag 0 C", 12900), ("bag-10", "Sleeping bag 10 C", 7900),
    ("stove-g", "Gas stove", 4500), ("stove-s", "Spirit stove", 3900), ("pan-18", "Pan 18 cm", 2400), ("mug-ti", "Titanium mug", 2900),
    ("lamp-h", "Head lamp", 3400), ("filter", "Water filter", 4900), ("pack-45", "Rucksack 45 l", 14900), ("pack-65", "Rucksack 65 l", 17900),
    ("poles", "Trekking poles", 6900), ("tarp-3", "Tarp 3 x 3 m", 7400),
]
NAMES = ["Ada Brandt", "Bo Lindqvist", "Carla Reyes", "Deniz Kaya", "Elif Aydin", "Femi Okoro", "Greta Holm", "Hugo Marsh",
         "Ines Duarte", "Jonas Weber", "Kaja Nowak", "Luca Ferri", "Mina Sato", "Nils Berg"]
STREETS = ["Mill Lane", "Harbour Road", "Birch Street", "Station Square", "Old Market"]
CITIES = ["Lund", "Kassel", "Porto", "Graz", "Gdynia"]


class Lcg:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def main():
    rng = Lcg(7)
    state = {"products": {}, "customers": {}, "orders": {}, "log": []}
    for sku, name, price in PRODUCTS:
        state["products"][sku] = {"sku": sku, "name": name, "price_cents": price, "stock": rng.below(12),
                                  "colours": ["green", "grey", "orange"][: 1 + rng.below(3)]}
    number = 5001
    for index, name in enumerate(NAMES):
        customer = f"C-{310 + index * 7}"
        first, last = name.lower().split()
        state["customers"][customer] = {
            "id": customer, "name": name, "email": f"{first}.{last}@example.com",
            "address": {"street": f"{STREETS[rng.below(5)]} {1 + rng.below(90)}", "city": CITIES[rng.below(5)], "zip": str(10000 + rng.below(80000))},
            "since": str(2017 + rng.below(8)), "orders": [],
        }
        for _ in range(2 + rng.below(3)):
            order = f"W-{number}"
            number += 1 + rng.below(9)
            items = []
            for _ in range(1 + rng.below(3)):
                sku, title, price = PRODUCTS[rng.below(len(PRODUCTS))]
                if all(item["sku"] != sku for item in items):
                    items.append({"sku": sku, "name": title, "quantity": 1 + rng.below(2), "price_cents": price})
            status = ["delivered", "delivered", "in transit", "packing", "open"][rng.below(5)]
            day = 1 + rng.below(27)
            state["orders"][order] = {
                "id": order, "customer": customer, "date": f"2025-05-{day:02d}", "status": status, "items": items,
                "total_cents": sum(item["price_cents"] * item["quantity"] for item in items), "paid_by": ["card", "invoice", "wallet"][rng.below(3)],
                "address": dict(state["customers"][customer]["address"]), "refunds": [], "notes": [],
                "parcel": {"carrier": ["NordPost", "Velo"][rng.below(2)], "number": f"{rng.below(10**9):09d}X{rng.below(100):02d}",
                           "events": [[f"2025-05-{min(31, day + 1):02d} 08:1{rng.below(10)}", "handed over"], [f"2025-05-{min(31, day + 2):02d} 17:4{rng.below(10)}", "sorting centre"],
                                      [f"2025-05-{min(31, day + 3):02d} 11:0{rng.below(10)}", "delivered"]][: {"delivered": 3, "in transit": 2}.get(status, 0)]},
            }
            state["customers"][customer]["orders"].append(order)
    with open("state.json", "w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)


if __name__ == "__main__":
    main()
