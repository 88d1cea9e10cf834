"""Typed probes: what a careful reader would ask about a session after its compaction, and whether the view answers it.

The probes are taken from the past before anything is compacted, by extractors of their own. Nothing here knows how
Tenfold makes its facts, plans or calls, and import-linter checks that. Otherwise the yardstick would only measure how
far Tenfold agrees with itself. `collect_probes` takes the probes, `judge` asks a view, and `plant_rules` adds rules to
a session.
"""

from __future__ import annotations

from tenfold.testing.probes.collect import collect_probes
from tenfold.testing.probes.kinds import PROBE_KINDS, ChatMessage, Probe, ProbeKind, ProbeVerdict
from tenfold.testing.probes.planted_rules import PlantedRules, plant_rules
from tenfold.testing.probes.polarity import Revocation, find_revocations, is_said_so
from tenfold.testing.probes.presence import IndexedView, judge

__all__ = [
    "PROBE_KINDS",
    "ChatMessage",
    "IndexedView",
    "PlantedRules",
    "Probe",
    "ProbeKind",
    "ProbeVerdict",
    "Revocation",
    "collect_probes",
    "find_revocations",
    "is_said_so",
    "judge",
    "plant_rules",
]
