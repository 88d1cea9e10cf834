"""The stages that a policy may put in order, from the mildest to the strongest."""

from tenfold.compaction.plan.stages.condense import MergeStage, SummarizePrefixStage
from tenfold.compaction.plan.stages.elide import ClearStage, SupersededReadsStage, TruncateStage

__all__ = ["ClearStage", "MergeStage", "SummarizePrefixStage", "SupersededReadsStage", "TruncateStage"]
