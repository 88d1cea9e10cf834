"""Cues of Italian."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "il", "lo", "la", "i", "gli", "le", "un", "uno", "una", "di", "del", "della", "dei", "delle", "e", "è", "in",
        "che", "per", "con", "non", "si", "su", "al", "alla", "più", "ma", "o", "come", "questo", "questa", "io",
        "tu", "mi", "ti", "mio", "tuo", "sono", "ha", "ho", "già", "c'è", "senza", "quando", "due", "essere", "sul",
        "da", "dal", "nel", "nella",
    ),
    lead=(
        "per favore", "e", "ma", "quindi", "anche",
    ),
    standing=(
        "sempre", "mai", "d'ora in poi", "da ora in poi", "da adesso in poi", "d'ora in avanti", "in futuro",
        "ogni volta", "in nessun caso", "per nessun motivo", "senza eccezioni", "fino a nuovo ordine",
        "^prima di ogni", "dopo ogni",
    ),
    binding=(
        "^non", "non devi", "non si deve", "non si può", "non puoi", "non deve", "devi", "deve", "devono", "bisogna",
        "vietato", "vietata", "è vietato", "proibito", "giù le mani", "tieni giù", "off limits", "solo ... può",
        "solo ... possono", "esclusivamente", "al massimo", "almeno", "senza il mio", "senza la mia",
        "senza chiedere", "senza permesso", "evita*", "preferisco", "nessuno", "ogni ... deve", "tutti ... devono",
        "niente ... senza", "lascia ... in pace", "lascia ... com'è", "lascia ... come sono", "non toccare",
        "chiedimi prima",
        "passano da", "passa da", "passano per",
    ),
    permitting=(
        "puoi", "si può", "potete", "è permesso", "è consentito", "hai il permesso", "va bene se",
    ),
    revoking=(
        "^dimentica*", "^ignora*", "^lascia perdere", "non vale più", "non serve più", "non devi più", "^scarta",
        "ritiro", "non è più necessario", "non occorre più",
    ),
    changing=(
        "alla fine", "cambiato idea", "ho cambiato idea", "tutto sommato", "non ... più", "nuova regola",
    ),
    recent=(
        "adesso", "ora", "ormai", "di nuovo", "alla fine", "d'ora in poi", "già",
    ),
    once=(
        "questa volta", "per questa volta", "per ora", "per adesso", "oggi", "al momento", "per il momento",
        "solo questa", "in questo caso",
    ),
    correcting=(
        "^aspetta", "^fermo", "^no", "sbagliato", "non è così", "intendevo", "ti avevo detto", "perché hai", "invece",
        "ancora",
    ),
    heading=(
        "regole", "regola", "convenzioni", "linee guida", "vincoli", "istruzioni",
    ),
    quoting=(
        "dice", "scrive", "ha scritto", "scritto", "ecco", "registro", "log", "uscita", "errore", "ticket", "mail",
        "email", "messaggio", "lettera", "documento", "testo", "verbale", "estratto", "citazione", "commento",
    ),
    idle=(
        "^non so", "^non è", "^non c'è", "^non ho", "^non capisco", "^non vedo", "^non sono", "^non funziona",
        "^non importa", "^non preoccuparti", "come sempre", "deve essere", "mai visto", "non ... mai visto",
        "^non ricordo",
    ),
)  # fmt: skip
