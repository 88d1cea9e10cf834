"""What an item is."""

from dataclasses import dataclass, field
from datetime import date


@dataclass
class Item:
    number: int
    title: str
    due: date | None = None
    done: bool = False
    tags: list = field(default_factory=list)
    every: str = ""
    notes: list = field(default_factory=list)
    priority: int = 3

    def __post_init__(self):
        if not self.title.strip():
            raise ValueError("an item needs a title")
        if not 1 <= self.priority <= 5:
            raise ValueError(f"priority must be 1 to 5, not {self.priority}")

    @property
    def is_open(self):
        return not self.done

    def is_late(self, today):
        return self.is_open and self.due is not None and self.due < today

    def tagged(self, tag):
        return tag.lower() in (known.lower() for known in self.tags)
