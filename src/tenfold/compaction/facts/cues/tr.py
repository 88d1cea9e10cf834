"""Cues of Turkish."""

# ruff: noqa: RUF001 - letters of other alphabets are meant

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "ve", "bir", "bu", "da", "de", "için", "ile", "çok", "ama", "ne", "gibi", "daha", "var", "yok", "mi", "mı",
        "mu", "mü", "o", "şu", "ben", "sen", "biz", "siz", "kadar", "sonra", "önce", "olarak", "değil", "ki", "her",
        "en", "ya", "veya", "bana", "beni",
    ),
    lead=(
        "lütfen", "ve", "ama", "o zaman",
    ),
    standing=(
        "asla", "her zaman", "daima", "bundan sonra", "bundan böyle", "bundan böyle", "artık hep", "her seferinde",
        "hiçbir zaman", "hiçbir koşulda", "hiçbir şekilde", "kesinlikle", "varsayılan olarak", "istisnasız",
        "ikinci bir emre kadar",
        "her * önce",
    ),
    binding=(
        "yasak", "yasaktır", "yasaklandı", "yapma", "dokunma", "silme", "değiştirme", "kullanma", "gönderme",
        "izin yok", "izin verilmez", "olmaz", "zorunda", "zorunlu", "gerekir", "gerekli", "şart", "yalnızca",
        "sadece ... *abilir", "en fazla", "en çok", "en az", "sormadan", "iznim olmadan", "onayım olmadan",
        "bana sormadan", "kaçın", "uzak dur", "elini sürme", "olduğu gibi bırak*", "hiç kimse", "kimse", "malı*",
        "meli*", "mamalı*",
        "memeli*",
    ),
    permitting=(
        "*abilirsin", "*ebilirsin", "*abilirsiniz", "*ebilirsiniz", "izin var", "izin veriyorum", "serbest",
        "sorun değil",
    ),
    revoking=(
        "unut", "boş ver", "geçerli değil", "artık gerek yok", "artık gerekmiyor", "zorunda değilsin",
        "kuralını unut", "kaldırıldı", "iptal",
    ),
    changing=(
        "fikrimi değiştirdim", "vazgeçtim", "onun yerine", "artık değil", "yeni kural", "artık",
    ),
    recent=(
        "artık", "şimdi", "yeniden", "tekrar", "bundan sonra",
    ),
    once=(
        "bu seferlik", "bu sefer", "bu kez", "şimdilik", "bugün", "bu defa", "şu an", "bu durumda",
    ),
    correcting=(
        "^hayır", "^dur", "^bekle", "yanlış", "öyle değil", "demek istediğim", "neden", "yerine", "hâlâ", "hala",
    ),
    heading=(
        "kurallar", "kural", "yönergeler", "ilkeler", "kısıtlar",
    ),
    quoting=(
        "diyor", "dedi", "yazıyor", "yazdı", "işte", "günlük", "çıktı", "hata", "bilet", "e-posta", "mesaj", "mektup",
        "belge", "metin", "alıntı", "yorum",
    ),
    idle=(
        "bilmiyorum", "anlamadım", "her zamanki gibi", "neden olmaz",
    ),
)  # fmt: skip
