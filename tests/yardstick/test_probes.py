"""The extractors: what each takes from a session, and what it leaves."""

from __future__ import annotations

import json

import pytest

from tenfold.testing.probes import ChatMessage, IndexedView, Probe, ProbeKind, collect_probes, judge


def make_user_message(text: str) -> ChatMessage:
    return {"role": "user", "content": text}


def make_reply(text: str) -> ChatMessage:
    return {"role": "assistant", "content": text}


class Talk:
    """Builds a session of calls with their results."""

    def __init__(self, first: str = "Please mend the totals of the shop.") -> None:
        self.messages: list[ChatMessage] = [make_user_message(first)]

    def call(self, name: str, result: str, **args: object) -> Talk:
        number = f"c{len(self.messages)}"
        function = {"name": name, "arguments": json.dumps(args)}
        self.messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": number, "type": "function", "function": function}],
            }
        )
        self.messages.append({"role": "tool", "tool_call_id": number, "content": result})
        return self

    def say(self, *messages: ChatMessage) -> Talk:
        self.messages += messages
        return self

    def get_probes(self, kind: ProbeKind) -> list[Probe]:
        return [probe for probe in collect_probes(self.messages) if probe.kind == kind]


def get_texts(probes: list[Probe]) -> list[str]:
    return [probe.text for probe in probes]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("Edit", {"file_path": "shop/cart.py", "old_string": "a", "new_string": "b"}),
        ("write", {"path": "shop/cart.py", "content": "x"}),
        ("str_replace_editor", {"command": "str_replace", "path": "shop/cart.py"}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: shop/cart.py\n@@\n*** End Patch"}),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: shop/cart.py\n@@\n*** End Patch"]}),
        ("shell", {"command": ["bash", "-lc", "apply_patch <<E\n*** Begin Patch\n*** Update File: shop/cart.py\nE"]}),
        ("replace", {"file_path": "shop/cart.py"}),
    ],
)
def test_an_edited_file_in_every_dialect(name: str, args: dict[str, object]) -> None:
    assert get_texts(Talk().call(name, "Replaced 1 occurrence.", **args).get_probes("edited")) == ["shop/cart.py"]
    assert not Talk().call(name, "Error: no such text. Nothing was changed.", **args).get_probes("edited")


def test_a_file_that_was_read_and_then_edited_is_an_edited_one() -> None:
    talk = Talk().call("Read", "text", file_path="a/b.py").call("Read", "text", file_path="a/c.py")
    talk.call("Edit", "done", file_path="a/b.py")
    assert get_texts(talk.get_probes("edited")) == ["a/b.py"]
    assert get_texts(talk.get_probes("read")) == ["a/c.py"]
    assert get_texts(Talk().call("bash", "x = 1", command="sed -n 1,20p src/x.py").get_probes("read")) == ["src/x.py"]


TRACE = 'Traceback (most recent call last):\n  File "x"\nValueError: the day 31 is out of range'


def test_an_error_with_its_command_open_or_resolved() -> None:
    talk = Talk().call("Bash", TRACE, command="python -m shop batch")
    assert [(p.text, p.place) for p in talk.get_probes("error")] == [("ValueError: the day 31 is out of range", "open")]
    talk.call("Bash", "3 orders", command="python -m shop batch")
    assert [p.place for p in talk.get_probes("error")] == ["resolved"]


def test_a_patch_that_a_shell_refused_is_known_by_its_file() -> None:
    patch = "*** Begin Patch\n*** Update File: shop/{}.py\n@@\n-{}\n*** End Patch"
    refused = "error: Failed to find expected lines of the totals"
    talk = Talk().call("shell", refused, command=["apply_patch", patch.format("cart", "x = 1")])
    talk.call("shell", "Success.", command=["apply_patch", patch.format("prices", "y = 2")])
    (probe,) = talk.get_probes("error")
    assert probe.place == "open"
    assert judge(probe, IndexedView([make_user_message(f'- "{refused}" (from: shop/cart.py)')])) == "present"
    talk.call("shell", "Success.", command=["apply_patch", patch.format("cart", "x = 2")])
    assert [p.place for p in talk.get_probes("error")] == ["resolved"]


def test_a_call_whose_result_is_lost_met_no_error() -> None:
    lost = "[tool error]\n[no result was recorded for this call]"
    assert not Talk().call("WebFetch", lost, url="https://example.com/plan").get_probes("error")


def test_quoted_errors_are_none() -> None:
    talk = Talk().call("Bash", "ValueError: seen in a log", command="grep -n Error app.log")
    assert not talk.get_probes("error")
    assert not Talk().call("Read", "class ShopError(Exception):\nError: x", file_path="errors.py").get_probes("error")
    assert not Talk().call("run", "Output: fine\nError: (none)\nExit Code: 0", command="make").get_probes("error")


def test_the_newest_outcome_wins_and_the_older_is_stale() -> None:
    failed, passed = "Ran 3 tests in 0.01s\n\nFAILED (failures=1)", "Ran 3 tests in 0.01s\n\nOK"
    talk = Talk().call("Bash", failed, command="python -m unittest shop.tests")
    talk.call("Bash", passed, command="cd /w && python -m unittest shop.tests 2>&1 | tail -3")
    (probe,) = talk.get_probes("outcome")
    assert "OK" in probe.text
    assert judge(probe, IndexedView([make_user_message("[ok] python -m unittest shop.tests")])) == "present"
    assert judge(probe, IndexedView([make_user_message("[exit 1] python -m unittest shop.tests failed")])) == "stale"


def test_a_later_run_that_says_nothing_of_its_end_is_no_failure() -> None:
    talk = Talk().call("Bash", "Exit code 1\nNo module named shop", command="cd /tmp && shop-report --help")
    assert [p.text for p in talk.get_probes("outcome")] == ["shop-report --help -> exit 1"]
    talk.call("Bash", "usage: shop-report [-h]", command="cd /tmp && shop-report --help")
    assert not talk.get_probes("outcome")


@pytest.mark.parametrize("body", ["{}", "$(cat <<'EOF'\n{}\nEOF\n)"])
def test_a_commit_is_known_by_its_first_line(body: str) -> None:
    message = body.format("Mend the totals of the shop\n\n- round prices\n- warn of splits")
    (probe,) = (
        Talk().call("Bash", "[main 1a2b3c4] Mend", command=f'git commit -m "{message}" && date').get_probes("outcome")
    )
    assert (
        judge(
            probe,
            IndexedView([make_user_message('[ok: 1a2b3c4] git commit -m "Mend the totals of the shop [+3 lines]')]),
        )
        == "present"
    )
    assert (
        judge(probe, IndexedView([make_user_message('[ok: 1a2b3c4] git commit -m "Round prices, warn of splits"')]))
        == "missing"
    )


def test_a_command_that_is_part_of_another_with_another_end_is_not_asked() -> None:
    talk = Talk().call("Bash", "Exit code 127", command="pytest")
    assert [probe.text for probe in talk.get_probes("outcome")] == ["pytest -> exit 127"]
    talk.call("Bash", "5 passed in 1.2s", command="pytest -x shop")
    assert [probe.text for probe in talk.get_probes("outcome")] == ["pytest -x shop -> 5 passed in 1.2s"]


@pytest.mark.parametrize(
    ("output", "well"),
    [
        ("====== 2 failed, 5 passed in 1.2s ======", False),
        ("====== 5 passed in 1.2s ======", True),
        ("Found 3 errors.", False),
        ("[main 1a2b3c4] mend totals", True),
        ("Command exited with code 2", False),
        ("[tool error]\nNo files were processed.\nChecked 0 files in 2ms. No fixes applied.", False),
    ],
)
def test_outcomes_in_every_dialect(output: str, *, well: bool) -> None:
    (probe,) = Talk().call("bash", output, command="make verify shop").get_probes("outcome")
    assert ("passed" in probe.answer[0]) is well


def test_constraints_are_the_users_rules_and_no_questions() -> None:
    talk = Talk(
        "Mend the totals.\n- Never introduce a float into an amount.\n- Every fix gets a test that fails first."
    )
    talk.say(
        make_reply("Never mind the carts, I must look at the prices."),
        make_user_message("Should we never write to the old store?"),
    )
    assert get_texts(talk.get_probes("constraint")) == [
        "Every fix gets a test that fails first.",
        "Never introduce a float into an amount.",
    ]


def test_what_does_not_matter_is_no_rule() -> None:
    assert (
        not Talk()
        .say(make_user_message("If it is not in stock, no worries, I take the other one."))
        .get_probes("constraint")
    )


def test_pasted_text_and_what_the_harness_wrote_are_nobodys_rules() -> None:
    for text in (
        "<system-reminder>You must never read the secret folder again.</system-reminder>",
        "```\nYou must never read the secret folder again.\n```",
        "<ide_selection>The user selected the line: you must never read that folder</ide_selection>\nGo on.",
        "Here is a demonstration of how to correctly accomplish this task.\nYou must never read that folder.",
        "01:12:38.208\n You must never read that folder.\n01:12:38.209\n You must never read that file.",
        "see the log\nhere\n" + "2025 line of log output\n" * 120 + "You must never read that folder.\nlast\nline",
    ):
        assert not Talk().say(make_user_message(text)).get_probes("constraint")


def test_corrections_follow_something_that_was_done() -> None:
    talk = Talk("Actually use the other warehouse for parcels instead.")
    assert not talk.get_probes("correction")
    talk.say(make_reply("Done."), make_user_message("No, put the parcels back into the northern warehouse."))
    assert len(talk.get_probes("correction")) == 1


def test_decisions_of_the_agent() -> None:
    talk = Talk().say(make_reply("Let's keep the sqlite store for archived sessions. It reads fast."))
    assert get_texts(talk.get_probes("decision")) == ["Let's keep the sqlite store for archived sessions."]


def test_identifiers_and_urls_with_their_surroundings() -> None:
    talk = Talk("The ticket SHOP-2291 tells of wrong totals, see https://tracker.example/SHOP-77 for pictures.")
    assert [p.answer for p in talk.get_probes("identifier")] == [(("shop-2291",),)]
    assert [p.answer for p in talk.get_probes("url")] == [(("https://tracker.example/shop-77",),)]
    assert not Talk("rows: " + " ".join(f"AB-{n}" for n in range(100, 140))).get_probes("identifier")


def test_numbers_with_their_label_the_newest_wins() -> None:
    talk = Talk("Stuck sensor limit: 12 for now.").say(
        make_reply("Good."), make_user_message("The stuck sensor limit is 48 from today.")
    )
    probes = [p for p in talk.get_probes("number") if p.old_answers]
    assert [p.answer[0][0] for p in probes] == ["48"]
    assert judge(probes[0], IndexedView([make_user_message("stuck sensor limit: 12")])) == "stale"


def test_the_first_and_the_last_task() -> None:
    talk = Talk("Hello.\nPlease rename the class Item to Task everywhere.")
    talk.say(
        make_reply("Done."),
        make_user_message("Thanks."),
        make_user_message("Now remove the import of version one files."),
    )
    assert get_texts(talk.get_probes("task")) == [
        "Please rename the class Item to Task everywhere.",
        "Now remove the import of version one files.",
    ]


def test_what_an_editor_adds_is_no_task() -> None:
    seen = "<ide_opened_file>The user opened the file shop/cart.py in the editor.</ide_opened_file>\n"
    assert get_texts(Talk(f"{seen}I would have one deep link that works for everyone here.").get_probes("task")) == [
        "I would have one deep link that works for everyone here."
    ]


def test_to_dos_of_the_newest_list() -> None:
    def make_todo_list(first: str, second: str) -> list[dict[str, str]]:
        return [
            {"content": "mend the splits", "status": first},
            {"content": "round percentages away", "status": second},
        ]

    talk = Talk().call("TodoWrite", "ok", todos=make_todo_list("pending", "pending"))
    talk.call("TodoWrite", "ok", todos=make_todo_list("completed", "in_progress"))
    assert sorted(get_texts(talk.get_probes("todo"))) == [
        "mend the splits [completed]",
        "round percentages away [in_progress]",
    ]
    boxes = Talk().say(make_reply("- [ ] mend the splits\n- [x] round percentages")).get_probes("todo")
    assert sorted(get_texts(boxes)) == ["mend the splits [pending]", "round percentages [completed]"]


def test_what_names_more_than_one_item_of_a_list_is_not_asked() -> None:
    drawn = "- [x] mend splits\n- [x] verify the tests\n- [ ] mend uneven splits\n- [x] verify the tests\n- [ ] ship it"
    assert get_texts(Talk().say(make_reply(drawn)).get_probes("todo")) == ["mend uneven splits [pending]"]


def test_commands_written_as_text_are_acts_and_their_output_is_no_user() -> None:
    prompt = "(Open file: {})\n(Current directory: /w)\nbash-$"
    talk = Talk("Mend the totals.")
    talk.say(
        make_reply("I open it.\n```\nopen shop/a.py\n```"),
        make_user_message("[File: /w/shop/a.py (9 lines total)]\n" + prompt.format("/w/shop/a.py")),
    )
    talk.say(
        make_reply("Now.\n<command>\nedit 1:2\nx\n</command>"),
        make_user_message("You must never do that.\n" + prompt.format("/w/shop/a.py")),
    )
    assert get_texts(talk.get_probes("edited")) == ["/w/shop/a.py"]
    assert not talk.get_probes("constraint")


def test_the_whole_past_answers_every_probe() -> None:
    talk = Talk().call("Bash", "noise\n" * 400 + "ValueError: far below its command", command="python -m shop")
    talk.call("Edit", "done", file_path="store/a.py").say(
        make_user_message("Never touch the folder with the old orders.")
    )
    found = collect_probes(talk.messages)
    whole = IndexedView(talk.messages)
    assert {p.kind for p in found} >= {"edited", "constraint", "task"}
    assert all(judge(p, whole) == "present" for p in found)
    assert not talk.get_probes("error"), "the command is too far above for any view to be asked"
    assert collect_probes(talk.messages) == found
