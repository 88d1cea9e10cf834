"""What it costs to send a parcel."""

FREE_FROM = 5000

ZONES = {
    "domestic": ((1000, 490), (5000, 690), (31500, 1290)),
    "europe": ((1000, 990), (5000, 1690), (31500, 2990)),
    "world": ((1000, 1990), (5000, 3990), (31500, 7990)),
}

EUROPE = {"AT", "BE", "DK", "ES", "FR", "IT", "NL", "PL", "PT", "SE"}


class TooHeavy(ValueError):
    """Raised when no parcel holds the order."""


def zone_of(country, home="DE"):
    if country == home:
        return "domestic"
    return "europe" if country in EUROPE else "world"


def cost(weight_grams, country, *, goods_total, express=False):
    """Cents for one parcel. Domestic parcels are free from FREE_FROM on, unless express."""
    zone = zone_of(country)
    if zone == "domestic" and goods_total > FREE_FROM:
        return 0
    for limit, amount in ZONES[zone]:
        if weight_grams <= limit:
            return amount * 2 if express else amount
    raise TooHeavy(f"{weight_grams} g is more than the largest parcel holds")
