"""What people say to agree, to thank, to greet or to let the agent go on, without asking for anything.

A message that consists of these only is an acknowledgement. Words are in lower case; one that needs no space around it,
as in Chinese, is found without. Left out is what may ask for something, such as "please" in most languages.
"""

# ruff: noqa: RUF001 - letters of other alphabets are meant

ACKNOWLEDGEMENTS: dict[str, tuple[str, ...]] = {
    "english": (
        "ok", "okay", "k", "yes", "yep", "yeah", "yup", "sure", "thanks", "thank you", "thx", "ty", "great",
        "good", "nice", "wow", "cool", "perfect", "awesome", "amazing", "fine", "done", "yo", "hi", "hello", "hey",
        "lgtm", "go", "go on", "go ahead", "continue", "proceed", "next", "right", "alright", "got it", "sounds good",
        "looks good", "jesus", "exactly", "correct", "agreed", "ls", "pwd", "please", "it works", "everything works",
        "keep going", "let's go", "lets go", "that works", "well done", "you are", "a", "monster", "so much",
        "very much", "for",
    ),
    "french": (
        "merci", "beaucoup", "merci bien", "d'accord", "ça marche", "ça va", "oui", "parfait", "super", "génial",
        "bien", "très bien", "c'est bon", "c'est bien", "vas-y", "allez-y", "continue", "continuez", "entendu",
        "compris", "bonjour", "salut", "bravo", "exactement", "nickel", "top", "bien sûr",
    ),
    "german": (
        "danke", "danke schön", "dankeschön", "danke dir", "vielen dank", "besten dank", "passt", "passt so", "ja",
        "jawohl", "gut", "sehr gut", "super", "perfekt", "prima", "toll", "klasse", "genau", "stimmt", "alles klar",
        "klar", "in ordnung", "einverstanden", "weiter", "weiter so", "mach weiter", "mach so weiter", "weitermachen",
        "hallo", "verstanden", "sieht gut aus", "gern", "gerne", "schön",
    ),
    "spanish": (
        "gracias", "muchas gracias", "mil gracias", "vale", "sí", "si", "claro", "perfecto", "genial", "bien",
        "muy bien", "de acuerdo", "está bien", "sigue", "siga", "continúa", "continua", "continúe", "adelante",
        "hola", "entendido", "exacto", "correcto", "listo", "excelente", "estupendo",
    ),
    "italian": (
        "grazie", "grazie mille", "mille grazie", "molte grazie", "va bene", "bene", "benissimo", "sì", "si",
        "certo", "perfetto", "ottimo", "d'accordo", "continua", "continui", "vai", "vai avanti", "avanti", "ciao",
        "esatto", "capito", "giusto", "fantastico", "bravo",
    ),
    "portuguese": (
        "obrigado", "obrigada", "muito obrigado", "muito obrigada", "valeu", "sim", "claro", "certo", "perfeito",
        "ótimo", "bom", "boa", "muito bom", "tudo bem", "está bem", "beleza", "pode continuar", "continue",
        "continua", "segue", "siga", "olá", "oi", "entendi", "exato", "isso",
    ),
    "dutch": (
        "dank", "dank je", "dank je wel", "dankjewel", "dank u", "dank u wel", "bedankt", "ja", "goed", "heel goed",
        "prima", "perfect", "oké", "oke", "klopt", "akkoord", "ga door", "ga verder", "ga zo door", "mooi", "hallo",
        "begrepen", "top",
    ),
    "polish": (
        "dzięki", "dziękuję", "bardzo", "tak", "dobrze", "dobra", "świetnie", "super", "jasne", "zgoda", "kontynuuj",
        "dalej", "cześć", "idealnie", "rozumiem",
    ),
    "turkish": (
        "teşekkürler", "teşekkür ederim", "sağ ol", "evet", "tamam", "tamamdır", "güzel", "çok güzel", "harika",
        "mükemmel", "devam", "devam et", "merhaba", "anladım", "olur",
    ),
    "russian": (
        "спасибо", "большое спасибо", "спасибо большое", "да", "ок", "окей", "хорошо", "отлично", "супер", "класс",
        "понятно", "понял", "согласен", "ладно", "продолжай", "продолжайте", "дальше", "давай", "верно", "точно",
        "привет", "здравствуйте",
    ),
    "ukrainian": (
        "дякую", "щиро дякую", "так", "добре", "чудово", "гаразд", "зрозуміло", "продовжуй", "далі", "привіт",
    ),
    "chinese": (
        "好", "好的", "好吧", "好呀", "好啊", "可以", "可以的", "行", "行吧", "没问题", "谢谢", "谢谢你", "多谢",
        "感谢", "非常感谢", "对", "对的", "是", "是的", "嗯", "嗯嗯", "不错", "很好", "非常好", "太好了", "完美",
        "棒", "太棒了", "继续", "请继续", "继续吧", "明白", "明白了", "了解", "收到", "知道了", "你好", "您好",
        "謝謝", "沒問題", "繼續", "請繼續", "對", "很棒", "辛苦了",
    ),
    "japanese": (
        "はい", "ええ", "うん", "オッケー", "おk", "了解", "了解です", "了解しました", "わかりました", "分かりました",
        "ありがとう", "ありがとうございます", "ありがとうございました", "どうも", "いいね", "いいですね", "良いです",
        "いいです", "素晴らしい", "完璧", "完璧です", "大丈夫", "大丈夫です", "問題ありません", "続けて",
        "続けてください", "続行", "進めて", "進めてください", "次", "お願いします", "こんにちは", "なるほど", "です",
    ),
    "korean": (
        "네", "예", "응", "좋아", "좋아요", "좋습니다", "알겠어", "알겠습니다", "감사", "감사합니다", "고마워",
        "고맙습니다", "완벽해", "완벽합니다", "계속", "계속해", "계속해줘", "계속하세요", "계속 진행해", "맞아",
        "맞습니다", "안녕하세요", "확인",
    ),
    "arabic": ("شكرا", "شكراً", "شكرا جزيلا", "نعم", "حسنا", "حسناً", "تمام", "ممتاز", "استمر", "تابع", "مرحبا"),
    "hindi": ("धन्यवाद", "शुक्रिया", "हाँ", "हां", "ठीक है", "अच्छा", "बहुत अच्छा", "जारी रखो", "जारी रखें", "नमस्ते"),
}  # fmt: skip
"""Words and phrases by language."""
SIGNS = "👍👌🙏🎉✅💯🚀❤😊🙂🔥👏"
"""Signs that acknowledge where nothing is said in words."""
