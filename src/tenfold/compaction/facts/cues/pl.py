"""Cues of Polish."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "i", "w", "na", "z", "do", "że", "nie", "się", "to", "jest", "o", "jak", "a", "ale", "po", "co", "za", "od",
        "dla", "ten", "ta", "te", "tym", "tego", "są", "by", "przez", "już", "czy", "mi", "mnie", "ty", "ja", "my",
        "oraz", "lub", "albo", "gdy", "jego", "jej", "ich", "było", "jedno", "dwa",
    ),
    lead=(
        "proszę", "i", "ale", "więc", "także",
    ),
    standing=(
        "zawsze", "nigdy", "od teraz", "od tej pory", "odtąd", "na przyszłość", "za każdym razem", "w żadnym wypadku",
        "pod żadnym pozorem", "domyślnie", "bez wyjątku", "do odwołania",
        "^przed każdym", "^po każdym",
    ),
    binding=(
        "nie wolno", "nie można", "nie możesz", "nie należy", "nie powinieneś", "^nie", "musisz", "musi", "muszą",
        "trzeba", "należy", "zabronione", "zakazane", "zabraniam", "zakaz", "ręce precz", "wyłącznie",
        "tylko ... może", "tylko ... mogą", "najwyżej", "maksymalnie", "co najmniej", "bez mojej", "bez pytania",
        "bez zgody", "unikaj", "wolę", "nikt", "każd* ... musi", "wszystkie ... muszą", "nic ... bez",
        "zostaw ... w spokoju", "zostaw ... jak jest", "zostaw ... jak są", "zapytaj mnie",
    ),
    permitting=(
        "możesz", "wolno", "można", "masz prawo", "pozwalam", "jest dozwolone", "dozwolone",
    ),
    revoking=(
        "^zapomnij", "^zignoruj", "^pomiń zasadę", "nie obowiązuje", "nie musisz już", "już nie musisz",
        "nieaktualne", "odwołuję", "cofam", "już nie trzeba", "już nie obowiązuje",
    ),
    changing=(
        "jednak", "zmieniłem zdanie", "zmieniłam zdanie", "zamiast tego", "już nie", "nowa zasada",
    ),
    recent=(
        "teraz", "już", "jednak", "znowu", "znów", "od teraz",
    ),
    once=(
        "tym razem", "na razie", "dzisiaj", "dziś", "chwilowo", "w tej chwili", "tylko ten raz", "w tym przypadku",
    ),
    correcting=(
        "^nie,", "^czekaj", "^stop", "źle", "błędnie", "to nie to", "miałem na myśli", "mówiłem", "dlaczego",
        "zamiast", "nadal", "wciąż",
    ),
    heading=(
        "zasady", "zasada", "reguły", "konwencje", "wytyczne", "wymagania",
    ),
    quoting=(
        "pisze", "napisał", "napisała", "mówi", "oto", "log", "dziennik", "wynik", "błąd", "zgłoszenie", "mail",
        "e-mail", "wiadomość", "list", "dokument", "tekst", "cytat", "fragment", "komentarz",
    ),
    idle=(
        "nie wiem", "^nie ma", "^nie mam", "^nie jest", "^nie działa", "^nie rozumiem", "^nie widzę", "^nie pamiętam",
        "^nie szkodzi", "jak zawsze", "nigdy nie widziałem", "nie martw się", "możesz mi powiedzieć",
    ),
)  # fmt: skip
