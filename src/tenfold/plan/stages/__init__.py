"""The stages that a policy may put in order, from the mildest to the strongest."""

from tenfold.plan.stages.condense import MergeStage, SummarizePrefixStage
from tenfold.plan.stages.elide import ClearStage, SupersededReadsStage, TruncateStage

__all__ = ["ClearStage", "MergeStage", "SummarizePrefixStage", "SupersededReadsStage", "TruncateStage"]
