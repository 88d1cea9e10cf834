"""Cues of Portuguese."""

from __future__ import annotations

from tenfold.compaction.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "o", "a", "os", "as", "um", "uma", "de", "do", "da", "dos", "das", "e", "é", "em", "no", "na", "nos", "nas",
        "que", "por", "para", "com", "não", "se", "ao", "mais", "mas", "ou", "como", "este", "esta", "isso", "está",
        "eu", "você", "me", "te", "meu", "minha", "seu", "sua", "já", "há", "sem", "sobre", "quando", "dois", "foi",
        "são", "ser", "só", "tudo",
    ),
    lead=(
        "por favor", "e", "mas", "então", "também",
    ),
    standing=(
        "sempre", "nunca", "jamais", "de agora em diante", "a partir de agora", "daqui em diante",
        "daqui para a frente", "doravante", "toda vez", "cada vez", "em hipótese alguma", "em nenhum caso",
        "por padrão", "sem exceção", "até segunda ordem",
        "^antes de cada", "depois de cada",
    ),
    binding=(
        "^não", "não pode*", "não deve*", "não se deve", "deve", "devem", "tem que ... sempre", "é proibido",
        "proibido", "proibida", "mãos fora", "nem pense", "somente", "apenas ... pode*", "só ... pode*", "no máximo",
        "no mínimo", "sem a minha", "sem minha", "sem me", "sem autorização", "sem permissão", "evite*", "prefiro",
        "ninguém", "cada ... deve", "todo* ... deve*", "nada ... sem", "deixe ... em paz", "deix* ... como está",
        "deix* ... como estão", "não mexa", "pergunte antes",
        "passam pelo", "passam pela", "passa pelo", "passa pela",
    ),
    permitting=(
        "você pode", "pode", "podem", "é permitido", "está liberado", "está autorizado", "tem permissão",
    ),
    revoking=(
        "^esqueça", "^esquece", "^ignore", "não precisa mais", "não vale mais", "não se aplica mais",
        "deixa de valer", "^descarte", "não é mais necessário", "já não é preciso", "já não precisa",
    ),
    changing=(
        "afinal", "mudei de ideia", "no fim das contas", "não ... mais", "nova regra", "em vez disso",
    ),
    recent=(
        "agora", "já", "afinal", "de novo", "novamente", "a partir de agora",
    ),
    once=(
        "desta vez", "dessa vez", "por enquanto", "hoje", "por ora", "no momento", "só desta", "neste caso",
    ),
    correcting=(
        "^espera", "^espere", "^pare", "errado", "incorreto", "isso não é", "eu quis dizer", "eu disse",
        "por que você", "em vez disso", "ainda",
    ),
    heading=(
        "regras", "regra", "normas", "convenções", "diretrizes", "restrições",
    ),
    quoting=(
        "diz", "disse", "escreve", "escreveu", "aqui está", "aqui estão", "registro", "log", "saída", "erro",
        "ticket", "e-mail", "mensagem", "carta", "documento", "texto", "trecho", "citação", "manual", "comentário",
    ),
    idle=(
        "^não sei", "^não é", "^não há", "^não tenho", "^não entendi", "^não vejo", "^não está", "^não,",
        "^não funciona", "^não se preocupe", "^não quero dizer", "como sempre", "deve ser", "^não me lembro",
        "pode ser", "você pode me", "pode me dizer",
    ),
)  # fmt: skip
