"""What is lost today, by kind and property. Whoever mends one takes its line out: its test then has to pass."""

from __future__ import annotations

LOST: dict[tuple[str, str], str] = {
    ("data_analysis", "kept"): "the questions are told, the numbers that answer them are not",
    ("friends", "kept"): "chatter with must and never fills the rules, nothing is left for the news",
    ("german_work", "kept"): "the sum, the asbestos and the reason for the insulation yield to passing remarks",
    (
        "japanese_trip",
        "kept",
    ): "sentences with the dates, the hotel's reason and the wheelchair yield to passing remarks",
    ("long_discussion", "kept"): "of a long answer the choice is lost and the last remarks are told",
    ("mail_thread", "kept"): "what the two of them settled yields to the demands of the other side",
    ("mode_switches", "kept"): "seven old modes take the room of the summary",
    ("pasted_law", "kept"): "the pasted text and its rules take the room of the case and the answers",
    ("planning", "kept"): "prices, reasons and numbers of guests yield to passing remarks",
    ("support_day", "kept"): "requests are told, what came of them is not",
    ("tutoring", "kept"): "the corrected value and the tutor's findings yield to passing questions",
    ("voice_notes", "kept"): "a whole dictation is one sentence, and a word in it makes all of it a rule",
    ("all kinds", "kept"): "two of five facts are kept",
    ("mail_thread", "stale"): "what the other side demanded is told, and not what was settled instead",
    ("pasted_law", "stale"): "the question that doubts the old share is told, and not its answer",
    ("tutoring", "stale"): "the old date of the exam is a rule of the user",
    ("voice_notes", "stale"): "the old quote is told, and not the new one",
    ("web_research", "stale"): "the wrong mix is told, and of its correction only that there was a mistake",
    ("friends", "rules"): "must, never, every and nobody make rules of chatter",
    ("mail_thread", "rules"): "the body of a pasted mail is taken for the user's words",
    ("pasted_law", "rules"): "a numbered licence after a full stop is taken for the user's words",
    ("tutoring", "rules"): "a need with a date is taken for a rule",
    ("voice_notes", "rules"): "one word makes a rule of a dictation about something else",
    ("data_analysis", "rows"): "rows compete without their header",
    ("long_discussion", "rows"): "rows compete without their header",
    ("fenced_advice", "fence"): "a command in a fence is told as a call without a result",
    ("support_day", "changes"): "single reads are told where changes are missing",
}
