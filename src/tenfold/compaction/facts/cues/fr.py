"""Cues of French."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "le", "la", "les", "un", "une", "des", "du", "de", "et", "est", "en", "que", "qui", "dans", "pour", "sur",
        "pas", "ne", "il", "elle", "je", "tu", "nous", "vous", "on", "ce", "cette", "ces", "au", "aux", "avec", "par",
        "plus", "mais", "ou", "se", "sa", "son", "ses", "mon", "ma", "mes", "ton", "ta", "tes", "sont", "a", "été",
        "être", "y", "deux",
    ),
    lead=(
        "s'il te plaît", "s'il vous plaît", "et", "mais", "donc", "merci de",
    ),
    standing=(
        "toujours", "jamais", "désormais", "dorénavant", "à partir de maintenant", "à l'avenir", "chaque fois",
        "à chaque fois", "en aucun cas", "sous aucun prétexte", "systématiquement", "par défaut",
        "jusqu'à nouvel ordre", "sans exception",
        "^avant chaque", "^après chaque",
    ),
    binding=(
        "^ne ... pas", "^n'* ... pas", "^ne pas", "on ne ... pas", "on n'* ... pas", "il ne faut pas", "il faut",
        "tu dois", "vous devez", "doit", "doivent", "ne ... jamais", "ne doi* ... pas", "ne peu* ... que", "interdit",
        "interdite", "interdits", "interdites", "défense de", "pas touche", "bas les pattes", "hors limites",
        "uniquement", "seulement si", "au maximum", "au plus", "au moins", "sans ... accord", "sans mon", "sans me",
        "évite*", "je préfère", "personne ne", "seul* ... peu*", "chaque ... doit", "tout* ... passe*",
        "tous les ... doivent", "rien ... sans", "laisse* ... tranquille", "laisse* ... tel* quel*",
        "laisse* ... comme il est", "laisse* ... comme elle est", "laisse* ... comme ils sont",
        "laisse* ... comme elles sont", "demande*-moi avant", "ne touche*",
        "^ne ... plus",
        "^n'* que", "passent ... par", "passe par", "doit passer par",
    ),
    permitting=(
        "tu peux", "vous pouvez", "peux-tu", "est permis", "est autorisé*", "sont autorisé*", "tu as le droit",
        "c'est bon pour",
    ),
    revoking=(
        "^oublie*", "^ignore*", "^laisse* tomber", "ne s'applique plus", "plus besoin", "tu n'as plus",
        "n'es plus obligé", "n'as pas besoin de", "annule la règle", "n'est plus nécessaire",
        "n'est plus obligatoire", "n'est plus valable",
    ),
    changing=(
        "finalement", "changé d'avis", "en fin de compte", "plutôt que", "nouvelle règle", "tout compte fait",
    ),
    recent=(
        "maintenant", "finalement", "désormais", "à nouveau", "dorénavant", "à présent", "de nouveau", "enfin",
    ),
    once=(
        "cette fois", "pour cette fois", "pour l'instant", "aujourd'hui", "pour le moment", "juste cette",
        "dans ce cas",
    ),
    correcting=(
        "^non", "^attends", "^stop", "faux", "c'est pas", "ce n'est pas", "je voulais dire", "pourquoi as-tu",
        "au lieu", "encore",
    ),
    heading=(
        "règles", "règle", "consignes", "conventions", "directives", "contraintes",
    ),
    quoting=(
        "écrit", "a écrit", "dit", "voici", "journal", "sortie", "erreur", "ticket", "courriel", "mail", "message",
        "lettre", "document", "texte", "extrait", "citation", "indique", "commentaire",
    ),
    idle=(
        "je ne sais pas", "ce n'est pas", "il n'y a pas", "je ne veux pas dire", "jamais vu", "comme toujours",
        "toujours pas", "n'est-ce pas", "que dois-je", "au moins un",
    ),
)  # fmt: skip
