"""Cues of Spanish."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "el", "la", "los", "las", "un", "una", "unos", "de", "del", "y", "es", "en", "que", "por", "para", "con",
        "no", "se", "lo", "su", "sus", "al", "más", "pero", "o", "como", "este", "esta", "estos", "está", "yo", "tú",
        "me", "te", "mi", "tu", "ya", "hay", "sin", "sobre", "cuando", "qué", "dos", "ha", "son", "ser", "si", "todo",
    ),
    lead=(
        "por favor", "y", "pero", "entonces", "también",
    ),
    standing=(
        "siempre", "nunca", "jamás", "de ahora en adelante", "a partir de ahora", "desde ahora", "en adelante",
        "cada vez", "en ningún caso", "bajo ningún concepto", "por defecto", "sin excepción", "hasta nuevo aviso",
        "^antes de cada", "después de cada",
    ),
    binding=(
        "^no", "no puedes", "no se puede", "no debes", "no deben", "no debe", "no hay que", "debes", "debe", "deben",
        "hay que", "tiene* que ... siempre", "prohibido", "prohibida", "está prohibido", "ni se te ocurra",
        "manos fuera", "fuera de límites", "únicamente", "solo ... puede*", "sólo ... puede*", "solo los", "solo las",
        "solo lo", "solo la", "como máximo", "como mínimo", "sin mi", "sin avisar*", "sin consultar*", "sin permiso",
        "evita*", "prefiero", "nadie", "cada ... debe", "todo* ... debe*", "nada ... sin", "deja* ... en paz",
        "deja* ... como está", "deja* ... como están", "deja* ... tal cual", "no toques", "pregúntame antes",
        "^todos los ... van", "^todas las ... van", "pasan por", "pasa por",
    ),
    permitting=(
        "puedes", "se puede", "está permitido", "tienes permiso", "te permito", "está bien que",
    ),
    revoking=(
        "^olvida*", "^ignora*", "no hace falta", "no tienes que", "queda sin efecto", "ya no se aplica", "^descarta*",
        "retiro lo", "ya no tienes que", "ya no es necesario", "ya no hay que",
    ),
    changing=(
        "al final", "cambié de opinión", "he cambiado de opinión", "en lugar de lo", "ya no", "nueva regla", "mejor",
    ),
    recent=(
        "ahora", "ya", "al final", "de nuevo", "otra vez", "ahora sí", "a partir de ahora",
    ),
    once=(
        "esta vez", "por esta vez", "por ahora", "de momento", "hoy", "por el momento", "solo esta", "en este caso",
    ),
    correcting=(
        "^espera", "^alto", "mal", "incorrecto", "eso no es", "quise decir", "te dije", "por qué has", "en lugar",
        "todavía",
    ),
    heading=(
        "reglas", "regla", "normas", "convenciones", "pautas", "restricciones",
    ),
    quoting=(
        "dice", "dijo", "escribe", "escribió", "aquí está", "aquí están", "aquí tienes", "registro", "salida",
        "error", "ticket", "correo", "mensaje", "carta", "documento", "texto", "cita", "extracto", "manual",
        "comentario",
    ),
    idle=(
        "^no sé", "^no lo sé", "^no es", "^no hay", "^no tengo", "^no he", "^no me", "^no entiendo", "^no veo",
        "^no está", "^no,", "^no funciona", "^no importa", "^no te preocupes", "como siempre", "debe de", "debe ser",
        "^no quiero decir", "qué debe", "solo los dos",
    ),
)  # fmt: skip
