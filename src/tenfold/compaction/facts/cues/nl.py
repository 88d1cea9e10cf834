"""Cues of Dutch."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "de", "het", "een", "van", "en", "is", "in", "op", "te", "dat", "die", "voor", "met", "niet", "je", "ik",
        "we", "ze", "er", "aan", "ook", "als", "maar", "om", "bij", "uit", "naar", "nog", "dan", "of", "zijn",
        "heeft", "was", "wordt", "deze", "dit", "mij", "me", "mijn", "jij", "jouw", "zo", "wat", "kan", "hebben",
    ),
    lead=(
        "alsjeblieft", "graag", "en", "maar", "dus", "ook",
    ),
    standing=(
        "altijd", "nooit", "vanaf nu", "van nu af aan", "voortaan", "in het vervolg", "elke keer", "iedere keer",
        "telkens", "in geen geval", "onder geen beding", "standaard", "zonder uitzondering", "tot nader order",
        "nimmer",
        "^voor elke", "^na elke",
    ),
    binding=(
        "mag niet", "mag ... niet", "mogen niet", "mogen ... niet", "mag geen", "mag ... geen", "niet ... zonder",
        "geen ... zonder", "moet", "moeten", "verboten", "verboden", "niet toegestaan", "handen af", "blijf af",
        "blijf van", "uitsluitend", "alleen ... mag", "alleen ... mogen", "hooguit", "hoogstens", "maximaal",
        "minstens", "zonder mijn", "zonder te vragen", "zonder overleg", "vermijd", "liever geen", "niemand",
        "elke ... moet", "alle ... moeten", "niets ... zonder", "laat ... met rust", "laat ... zoals het is",
        "laat ... zoals hij is", "laat ... zoals ze zijn", "raak ... niet",
        "vraag me eerst", "gaan langs", "gaat langs", "gaan via",
    ),
    permitting=(
        "je mag", "mag je", "je kunt", "kun je", "is toegestaan", "mag weer", "het is goed om",
    ),
    revoking=(
        "^vergeet", "^negeer", "^schrap", "geldt niet meer", "niet meer nodig", "hoeft niet meer",
        "hoef ... niet meer", "hoeft ... niet meer", "vervalt", "is vervallen",
    ),
    changing=(
        "toch", "van gedachten veranderd", "bij nader inzien", "niet meer", "nieuwe regel",
    ),
    recent=(
        "nu", "toch", "weer", "inmiddels", "voortaan", "intussen",
    ),
    once=(
        "deze keer", "dit keer", "voor deze keer", "voorlopig", "vandaag", "voor nu", "even niet", "op dit moment",
        "in dit geval",
    ),
    correcting=(
        "^nee", "^wacht", "^stop", "fout", "verkeerd", "dat is niet", "ik bedoelde", "ik zei", "waarom heb",
        "in plaats", "nog steeds",
    ),
    heading=(
        "regels", "regel", "afspraken", "huisregels", "richtlijnen", "conventies", "voorwaarden",
    ),
    quoting=(
        "schrijft", "schreef", "zegt", "staat", "hier is", "hier zijn", "luidt", "log", "uitvoer", "fout",
        "foutmelding", "ticket", "mail", "e-mail", "bericht", "brief", "document", "tekst", "citaat", "meldt",
        "opmerking",
    ),
    idle=(
        "weet niet", "nog nooit", "zoals altijd", "moet ik", "moeten we", "geen idee", "geen probleem",
        "je kunt het vinden", "kun je me", "kun je",
    ),
)  # fmt: skip
