"""What a language needs so that code can tell a user's standing rules from requests, permissions and revocations."""

from __future__ import annotations

from msgspec import Struct


class InstructionCues(Struct, frozen=True, kw_only=True):
    """The cues of one language, as phrases in lower case.

    In a phrase, "..." stands for a few words of the same sentence, a final "*" for any ending of the word, and a first
    "^" says that the phrase begins a clause, where `lead` words may precede it. A phrase is found as whole words;
    where `spaced` is False, as in Chinese, it is found anywhere.

    `common` are frequent words, by which the language is recognised and which say nothing about a rule's subject.
    `standing` phrases make a rule that holds from then on. `binding` ones forbid, demand or limit something: they make
    a rule too, unless a phrase of `once` limits them to the present request. `permitting` phrases allow something; that
    sets no rule, but it revokes one about the same. `revoking` ones end a rule. `changing` ones say that what follows
    replaces what was said before, and `recent` ones that a permission is new. `correcting` phrases say that something
    was done wrong. `heading` words stand over a list of rules. `quoting` words announce pasted text. A sentence is not
    judged by the phrases in `idle`, which look like cues and are none.
    """

    common: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    binding: tuple[str, ...] = ()
    permitting: tuple[str, ...] = ()
    revoking: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    correcting: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()
    quoting: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    spaced: bool = True
