"""Everything else."""

from datetime import date, timedelta

WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def parse_date(text, today):
    """'2025-07-01', 'today', 'tomorrow', 'fri', '+3' (days)."""
    word = text.strip().lower()
    if word == "today":
        return today
    if word == "tomorrow":
        return today + timedelta(days=1)
    if word.startswith("+"):
        return today + timedelta(days=int(word[1:]))
    if word[:3] in WEEKDAYS:
        ahead = (WEEKDAYS.index(word[:3]) - today.weekday()) % 7
        return today + timedelta(days=ahead or 7)
    return date.fromisoformat(word)


def show_date(day, today):
    """'today', 'tomorrow', 'yesterday', a weekday within a week, else the ISO date."""
    distance = (day - today).days
    if distance in {-1, 0, 1}:
        return {-1: "yesterday", 0: "today", 1: "tomorrow"}[distance]
    if 1 < distance < 7:
        return WEEKDAYS[day.weekday()]
    return day.isoformat()


def shorten(text, width):
    """At most `width` characters, with an ellipsis where something was cut."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def plural(number, word):
    """'1 item', '2 items'."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
