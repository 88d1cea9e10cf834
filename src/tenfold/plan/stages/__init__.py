"""The stages that a policy may put in order, from the mildest to the strongest."""

from tenfold.plan.stages.condense import DropMiddle, Merge, OneLine, SummarizePrefix
from tenfold.plan.stages.elide import Clear, SupersededReads, Truncate

__all__ = ["Clear", "DropMiddle", "Merge", "OneLine", "SummarizePrefix", "SupersededReads", "Truncate"]
