"""Words by which code recognises what a message does, as data, by language.

Imports nothing but the struct in `base`. `acknowledgements` holds what people say to agree. Each language has a module
of its own with the cues of its instructions. To add a language, add its words; nothing else has to change.
"""

from tenfold.compaction.facts.cues import ar, de, en, es, fr, hi, it, ja, ko, nl, pl, pt, ru, tr, zh
from tenfold.compaction.facts.cues.base import InstructionCues

INSTRUCTION_CUES: dict[str, InstructionCues] = {
    module.__name__.rpartition(".")[2]: module.CUES
    for module in (en, de, fr, es, pt, it, nl, pl, tr, ru, zh, ja, ko, ar, hi)
}
"""The cues of each language, by its ISO 639-1 code."""
