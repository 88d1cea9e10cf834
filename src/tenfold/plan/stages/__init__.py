"""The stages that a policy may put in order, from the mildest to the strongest."""

from tenfold.plan.stages.condense import DropMiddleStage, MergeStage, OneLineStage, SummarizePrefixStage
from tenfold.plan.stages.elide import ClearStage, SupersededReadsStage, TruncateStage

__all__ = [
    "ClearStage",
    "DropMiddleStage",
    "MergeStage",
    "OneLineStage",
    "SummarizePrefixStage",
    "SupersededReadsStage",
    "TruncateStage",
]
