"""Cues of German."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "der", "die", "das", "und", "ist", "nicht", "ein", "eine", "einen", "dem", "den", "des", "zu", "mit", "auf",
        "für", "von", "im", "in", "es", "ich", "du", "wir", "sie", "sich", "auch", "so", "dass", "wie", "bei", "aus",
        "nach", "noch", "nur", "an", "oder", "aber", "wenn", "kann", "hat", "haben", "sind", "wird", "am", "zum",
        "zur", "bitte", "mir", "mich", "uns", "dir",
    ),
    lead=(
        "bitte", "und", "aber", "also", "dann", "auch",
    ),
    standing=(
        "immer", "nie", "niemals", "ab sofort", "ab jetzt", "von jetzt an", "von nun an", "künftig", "in zukunft",
        "zukünftig", "jedes mal", "jedesmal", "grundsätzlich", "stets", "unter keinen umständen", "auf keinen fall",
        "in jedem fall", "auf jeden fall immer", "bis auf weiteres", "generell", "ausnahmslos",
        "ausnahmslos", "^vor jedem", "^vor jeder", "^nach jedem", "^nach jeder",
    ),
    binding=(
        "darf* ... nicht", "darf* nicht", "dürfen ... nicht", "darf* kein*", "darf* ... kein*", "nicht ... ohne",
        "kein* ... ohne", "muss", "müssen", "musst", "sollst nicht", "soll* ... nicht", "^bitte ... nicht",
        "^bitte kein*", "finger weg", "hände weg", "verboten", "untersagt", "tabu", "nicht erlaubt",
        "nicht gestattet", "nur noch", "ausschließlich", "höchstens", "mindestens", "maximal", "lass* ... in ruhe",
        "lass ... unangetastet", "lass* ... wie er ist", "lass* ... wie sie ist",
        "lass* ... wie es ist", "lass* ... wie sie sind", "^fass* ... nicht", "^rühr* ... nicht",
        "^änder* ... nicht", "^lösch* ... nicht",
        "^verwend* ... nicht", "^benutz* ... nicht", "^schreib* ... nicht", "^mach* ... nicht", "nichts ... ohne",
        "niemand", "nur ... darf", "nur mit", "vermeide*", "ich will kein*", "ich möchte kein*", "jede* ... braucht",
        "jede* ... bekommt", "alle ... gehen", "geht über", "gehen über", "frag mich", "frag ... vorher",
        "erst ... dann", "wird nicht", "werden nicht",
        "gehen erst", "gehen zuerst", "geht erst", "geht zuerst", "gehen immer", "nichts wird",
    ),
    permitting=(
        "du darfst", "darfst du", "du kannst", "kannst du", "ist erlaubt", "ist in ordnung", "darf* ... wieder",
        "sind erlaubt", "ihr dürft",
    ),
    revoking=(
        "^vergiss", "^ignorier*", "^streich*", "gilt nicht mehr", "hat sich erledigt", "ist aufgehoben",
        "ich nehme ... zurück", "brauchst ... nicht mehr", "musst ... nicht mehr", "musst du nicht", "hinfällig",
        "entfällt", "nicht mehr nötig",
    ),
    changing=(
        "doch", "anders überlegt", "statt dessen", "stattdessen", "nicht mehr", "neue regel", "nun doch",
    ),
    recent=(
        "jetzt", "nun", "doch", "wieder", "inzwischen", "mittlerweile", "ab sofort",
    ),
    once=(
        "diesmal", "dieses mal", "heute", "vorerst", "fürs erste", "erstmal", "in diesem fall", "nur dieses",
        "im moment", "ausnahmsweise",
    ),
    correcting=(
        "^nein", "^halt", "^stopp", "falsch", "stattdessen", "nicht das", "das ist nicht", "ich meinte", "ich sagte",
        "warum hast", "warum ist", "kaputt", "fehlt", "immer noch",
    ),
    heading=(
        "regeln", "regel", "vorgaben", "konventionen", "richtlinien", "hausregeln", "spielregeln", "grundregeln",
        "bedingungen",
    ),
    quoting=(
        "schreibt", "schrieb", "steht", "sagt", "sagte", "hier ist", "hier sind", "lautet", "log", "protokoll",
        "ausgabe", "fehler", "fehlermeldung", "ticket", "mail", "e-mail", "nachricht", "brief", "text", "dokument",
        "zitat", "meldet", "auszug", "kommentar", "vertrag", "aus dem", "aus der",
    ),
    idle=(
        "weiß nicht", "immer noch", "noch nie", "nie wieder gesehen", "wie immer", "muss ich", "müssen wir",
        "muss wohl", "muss es", "nicht wahr", "musst du sein", "keine ahnung", "kein problem", "immer mal",
        "nicht so wichtig",
    ),
)  # fmt: skip
