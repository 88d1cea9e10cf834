"""Cues of English."""

from __future__ import annotations

from tenfold.facts.cues.base import InstructionCues

CUES = InstructionCues(
    common=(
        "the", "a", "an", "of", "to", "and", "in", "is", "it", "you", "i", "that", "for", "on", "with", "this",
        "as", "are", "be", "was", "have", "not", "but", "or", "at", "by", "from", "we", "they", "if", "my", "your",
        "our", "me", "has", "can", "will", "there", "so", "what", "when", "do", "did", "which", "one", "all",
        "would",
    ),
    lead=(
        "please", "and", "but", "so", "also", "just", "then", "again", "oh", "ok", "okay", "and please",
        "but please", "oh, and please", "again, please", "really", "no", "yes",
    ),
    standing=(
        "always", "never", "from now on", "from here on", "going forward", "from today on", "whenever", "^every time", "^each time", "every time you", "each time you",
        "at all times", "under no circumstances", "in every case", "in any case",
        "as a rule", "by default", "without exception", "until i say", "until further notice", "unless i say",
        "unless i ask", "unless i tell", "in (?:general", "future)", "critical rule", "permanently", "hard rule",
        "one rule", "the rule is", "remember to",
    ),
    binding=(
        "^don't", "^do not", "^never", "we don't", "we do not", "you must", "must not", "mustn't", "must",
        "may not", "may only", "cannot be", "^no ... without", "no more than", "at most", "at least",
        "no longer than", "not allowed", "isn't allowed", "not permitted", "forbidden", "prohibited", "banned",
        "off limits", "off-limits", "out of bounds", "hands off", "keep your hands off", "stay away from",
        "stay out of", "keep away from", "keep out of", "steer clear of", "leave ... alone",
        "leave ... untouched", "nobody", "no one", "use only", "only ever",
        "only use", "only after", "only when", "nothing but", "nothing goes",
        "nothing leaves", "nothing may", "is taboo", "are taboo", "should never", "should always", "should only",
        "should not", "shouldn't", "shall not", "shall", "i prefer", "^prefer", "^avoid", "only ... may", "^only ... can", "^only ever", "*s ... go through", "*s ... go across", "*s ... go past", "*s ... go via", "*s ... go to ... first", "i'd rather you",
        "i want every", "i want all", "^stick to", "^stay below", "^stay under", "^keep ... under",
        "^keep ... below", "^keep every", "^keep all", "^keep it short", "goes across",
        "goes through", "goes past", "goes via", "has to be approved", "needs approval",
        "need approval", "needs a sign-off", "need my approval", "needs my approval", "needs sign-off",
        "sign-off from", "^every ... needs", "^every ... gets", "^every ... has", "^every ... goes",
        "^every ... is", "^each ... needs", "^each ... gets", "^each ... has", "^each ... goes", "^all ... need",
        "^all ... go", "^all ... have to", "^all ... are written", "^all ... stay", "^all ... belong", "is to be",
        "are to be", "not to be", "before you commit", "before you push", "before you merge", "before you submit",
        "before you send", "before you delete", "before you install", "before you run", "before you deploy",
        "without asking", "without my", "ask me before", "ask me first", "ask before", "check with me",
        "^no ... please",
        "belong* to ... team", "belongs in", "belong in", "is maintained by", "are maintained by", "so leave it",
        "is read-only", "are read-only", "is frozen", "in british spelling", "use british", "i hate",
    ),
    permitting=(
        "you may", "you can", "you are allowed", "you're allowed", "you are free to", "feel free to", "it is ok to",
        "it's ok to", "it's fine to", "it is fine to", "is fine", "is allowed", "are allowed", "is ok", "okay to",
        "ok to", "is permitted", "fair game", "i allow",
    ),
    revoking=(
        "^forget", "^drop the", "^ignore", "^scrap", "^disregard", "^scratch", "no longer", "any more", "anymore",
        "doesn't apply", "does not apply", "is lifted", "is off", "is gone", "never mind the", "you don't have to",
        "you do not have to", "you don't need to", "you need not", "no need to", "i take back", "take back what",
        "i withdraw", "is void", "no longer holds", "^lift", "you can stop", "you can forget", "you may stop",
    ),
    changing=(
        "changed my mind", "after all", "instead of what", "instead of", "no longer", "anymore", "any more", "new rule",
        "correction", "switch to", "i take back", "not ... but ... from now on", "as of now", "rather than what",
        "overrides", "replaces",
    ),
    recent=(
        "now", "again", "after all", "meanwhile", "from now on", "as of today", "since", "by now", "anyway", "too",
    ),
    once=(
        "this time", "anything else", "nothing else for", "this once", "just once", "just this", "for now", "for the moment", "for today", "right now",
        "today", "tonight", "tomorrow", "this one", "in this case", "on this one", "yet",
        "not now", "at the moment", "the next step", "these two", "those two", "this run", "in this run",
        "this week", "in that order", "for that order", "that file", "this order", "in the meantime",
    ),
    correcting=(
        "^no", "^nope", "^nah", "^wait", "^stop", "^hold on", "^wrong", "^actually", "^wtf",
        "^uh", "not that", "not what", "not quite", "not our", "instead", "wrong", "wrongly", "incorrect",
        "why did", "why do", "why does", "why would", "why are", "why is", "revert", "undo", "roll back",
        "rollback", "i said", "i meant", "i told", "i asked", "that's not", "this isn't",
        "idiot", "shit", "shitty", "dumb",
        "ugly", "messy", "i'd hate", "i don't like", "i didn't like", "shouldn't have",
        "not working",
        "definitely not", "confus*", "misnomer", "misunderst*", "forgot",
        "missed", "i thought", "supposed to", "^but",
    ),
    heading=(
        "rules", "limit", "limits", "rule", "house rules", "ground rules", "conventions", "guidelines", "constraints", "policy",
        "policies", "standing orders", "working agreements",
        "do's and don'ts",
    ),
    quoting=(
        "says", "said", "writes", "wrote", "reads", "here is", "here's", "here are", "log", "logs", "output",
        "error", "errors", "traceback", "stack trace", "issue", "ticket", "email", "mail", "message", "letter",
        "readme", "document", "docs", "article", "paste", "pasted", "quote", "transcript", "from the", "prints",
        "printed", "printed this", "prints this", "results in", "this results in", "returned", "got this", "i get",
        "gives", "review", "comment", "comments", "feedback", "the spec", "description", "contract", "according to",
        "text", "changelog", "story", "example", "report", "posted",
    ),
    idle=(
        "don't worry", "don't know", "don't think", "don't remember", "don't recall", "don't have", "don't see",
        "don't get", "don't understand", "don't want", "don't need", "don't mind", "don't care", "don't like",
        "don't bother", "don't forget to say", "do not know", "do not think", "do not remember", "do not have",
        "do not see", "do not want", "do not need", "do not understand", "never mind", "nevermind",
        "must have been", "must be joking", "must be wrong", "must be a", "must have", "must admit", "must say",
        "i must", "we must", "if the ... must", "this ... must be", "if ... not allowed", "if there ... i prefer", "i've never", "i have never", "i never", "it never", "they never", "he never", "she never",
        "has never", "have never", "had never", "was never", "were never", "never happened", "i always",
        "it always", "they always", "he always", "she always", "as always", "must it", "must they", "must we",
        "must i", "do i have to", "no problem", "no worries", "no idea", "no doubt", "no need", "no rush",
        "no luck", "no question", "no questions", "at least one of", "at least it", "at least the", "no one knows",
        "nobody knows", "nobody likes", "no one likes", "only problem", "go through the",
        "going through", "went through", "shall i", "shall we", "should i not", "should we not", "why not",
        "^no longer", "you always", "you never", "you must be",
       
    ),
)  # fmt: skip
