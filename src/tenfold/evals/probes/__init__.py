"""Typed probes: what a careful reader would ask about a session after its compaction, and whether the view answers it.

The probes are taken from the past before anything is compacted, by extractors of their own. Nothing here knows how
Tenfold makes its facts, plans or calls, and import-linter checks that. Otherwise the yardstick would only measure how
far Tenfold agrees with itself. `collect_probes` takes the probes, `judge` asks a view, `count_verdicts` counts the
results, and `plant_rules` adds rules to a session.
"""

from __future__ import annotations

from tenfold.evals.probes.anchored import Shown, judge, tallies
from tenfold.evals.probes.extract import probes_of
from tenfold.evals.probes.kinds import KINDS, ChatMessage, Kind, Probe, Tally, Verdict
from tenfold.evals.probes.planted import Planted, plant

__all__ = [
    "KINDS",
    "ChatMessage",
    "Kind",
    "Planted",
    "Probe",
    "Shown",
    "Tally",
    "Verdict",
    "judge",
    "plant",
    "probes_of",
    "tallies",
]
