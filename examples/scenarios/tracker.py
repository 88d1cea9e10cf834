"""Taking a small task tracker apart and together again: renames, moves, deletions. Recorded as a Codex rollout."""

from __future__ import annotations

from pathlib import Path

from examples.recorder.session import Session

START = 1_750_662_000  # 2025-06-23 07:00 UTC

SYSTEM = "You change the code in the working directory as the user asks. Run the tests before you say that something is done."

RENAMES = (
    ("store", "The file format does not name the class, so old files stay readable; I checked `to_row`: only field names."),
    ("query", "Here it is annotations only."),
    ("recur", "`finish` builds a new one, so this is more than annotations."),
    ("render", "The word in \"1 item\" is for the reader, not the class: that stays until you say otherwise."),
)  # fmt: skip

MOVES = (
    ("parse_date", "dates", "It needs WEEKDAYS, so `dates` gets it; `util` keeps its own until `show_date` has moved."),
    ("show_date", "dates", "Its twin. WEEKDAYS has no user left in `util` after this one."),
    ("shorten", "text", "The first of the two about text."),
    ("plural", "text", "And the last. `util` is empty after it."),
)  # fmt: skip


def play(root: Path, project: Path) -> Session:
    """Plays the session in a checkout below `root`, filled with the files of `project`."""
    session = Session("tracker", START, cwd="/home/dev/tracker", system=SYSTEM)
    session.open(root)
    session.checkout.fill(project)
    session.checkout.run("git init -q -b main && git add -A && git commit -q -m 'tracker 0.3'")
    _begin(session)
    _rename(session)
    _storage(session)
    _split(session)
    _legacy(session)
    _month_end(session)
    _close(session)
    return session


def _begin(s: Session) -> None:
    s.add_user("""
        I want to tidy up this task tracker before 0.4. In this order: rename the class Item to Task everywhere, get rid of the
        module util (I hate modules called util), and remove the CSV import of version 1. Please keep to these:
        - Small commits, tests green after each. Never commit with a failing test.
        - The command line must not change: same commands, same options, same output.
        - Never edit tasks.json files by hand, and keep reading version 2 of the file.
        - No dependencies.
    """)
    s.run_bash("Let me see what there is.", "git ls-files && wc -l tracker/*.py tests/*.py && cat README.md")
    s.run_bash("The tests as a baseline.", "python -m unittest -v")
    s.read("The heart of it.", "tracker/model.py", "tracker/store.py")
    s.read("What works on items.", "tracker/query.py", "tracker/recur.py", "tracker/render.py")
    s.read("And the rest.", "tracker/util.py", "tracker/legacy.py", "tracker/__main__.py")
    s.run_bash("How often does each name occur?", "git grep -c -w Item; git grep -n 'util' -- tracker tests README.md")
    s.run_bash("To prove later that the output did not change, I keep what it prints now.", (
        "mkdir check && cd check && export PYTHONPATH=.. TRACKER_FILE=tasks.json && "
        "python -m tracker add 'water the plants' --every 3d --tag home && python -m tracker add 'pay rent' --due 2025-01-01 --priority 1 && "
        "python -m tracker add 'a title that goes on and on and on until it no longer fits on a single line of the terminal' --tag long && "
        "python -m tracker list && python -m tracker done 2 && python -m tracker list --tag home && cat tasks.json && cd .. && rm -r check"
    ))  # fmt: skip
    s.set_todos("The plan.", *_todo(0))
    s.say("""
        My plan for the rename: first `Task` in model.py with `Item = Task` as an alias, then module by module, and the alias goes
        last. So every commit is small and green.
    """)
    s.add_user("Sounds right. Go.")


def _rename(s: Session) -> None:
    s.edit("The class and the alias.", "tracker/model.py", "class Item:", "class Task:")
    s.run_bash(
        "",
        "printf '\\n\\nItem = Task\\n' >> tracker/model.py && sed -i 's/\\bItem\\b/Task/g; s/TestTask/TestItem/' tests/test_model.py && python -m unittest tests.test_model -v",
    )
    s.run_bash(
        "",
        "python -m unittest && git add -A && git commit -q -m 'model: call it Task, Item stays as an alias for now' && git show HEAD",
    )
    for module, remark in RENAMES:
        s.run_bash(f"Next: {module}.", f"git grep -n -w Item -- tracker/{module}.py tests/test_{module}.py")
        s.run_bash(remark, f"sed -i 's/\\bItem\\b/Task/g' tracker/{module}.py tests/test_{module}.py && git diff")
        s.run_bash("", f"python -m unittest tests.test_{module} -v")
        s.run_bash(
            "",
            f"python -m unittest && git add -A && git commit -q -m '{module}: Item becomes Task' && git show --stat HEAD",
        )
    s.edit(
        "Who still uses the alias? I take it away and let the tests tell.", "tracker/model.py", "\n\nItem = Task\n", ""
    )
    ran = s.run_bash("", "python -m unittest")
    assert ran.has_failed
    s.run_bash(
        "legacy and the command line, as expected.",
        "sed -i 's/\\bItem\\b/Task/g' tracker/legacy.py tracker/__main__.py && git diff && python -m unittest -v",
    )
    s.run_bash("", "git add -A && git commit -q -m 'Item is gone' && git grep -n -w Item; git log --oneline")
    s.set_todos("", *_todo(1))
    s.add_user("""
        Very good. In the docstrings it still says "item" in places. Leave the words of the output alone ("1 item" is what our users
        know), but in docstrings I'd like "task".
    """)
    s.run_bash("Docstrings and comments only:", "git grep -n -i 'item' -- tracker | grep '\"\"\"'")
    s.run_bash(
        "",
        'sed -i \'/"""/ s/\\bitems\\b/tasks/g; /"""/ s/\\bItems\\b/Tasks/g; /"""/ s/\\bitem\\b/task/g; /"""/ s/An task\\|an task/a task/g\' tracker/*.py && git diff',
    )
    s.read_lines(
        "One of them I want to see whole: `plural` has the words in its docstring as an example.",
        "tracker/util.py",
        38,
        46,
    )
    s.run_bash(
        "That example describes the output, so it goes back.",
        "git checkout tracker/util.py && python -m unittest && git add -A && git commit -q -m 'docstrings: task' && git show --stat HEAD",
    )


def _storage(s: Session) -> None:
    s.add_user('While you\'re at it, rename store.py to storage.py? "store" reads like a shop.')
    s.run_bash("", "git grep -n -w 'store' -- tracker tests README.md")
    s.run_bash(
        "",
        "git mv tracker/store.py tracker/storage.py && git mv tests/test_store.py tests/test_storage.py && sed -i 's/\\bstore\\b/storage/g' tracker/__main__.py tests/test_storage.py README.md && python -m unittest -v",
    )
    s.run_bash("", "git add -A && git commit -q -m 'store becomes storage' && git show --stat -M HEAD")
    s.add_user("""
        Ah, no. Our plugin people import tracker.store, I just asked them. Please undo that rename: it stays store.py, and note in
        the README that the module name is public.
    """)
    s.run_bash(
        "A revert keeps the history honest.", "git revert --no-edit HEAD && git show --stat -M HEAD && ls tracker tests"
    )
    s.edit("", "README.md", "store (the file)", "store (the file; plugins import it, the name is public)")
    s.run_bash("", "python -m unittest && git add -A && git commit -q -m 'README: tracker.store is public'")
    s.say("store.py is store.py again, and the README says why.")


def _split(s: Session) -> None:
    s.add_user("Now util.")
    s.say(
        "Four functions in two groups: dates (parse_date, show_date) and text (shorten, plural). One at a time, with its tests."
    )
    for function, home, remark in MOVES:
        s.run_bash(remark, f"git grep -n -w {function} -- tracker tests")
        source = s.checkout.root.joinpath("tracker/util.py").read_text("utf-8")
        start = source.index(f"def {function}(")
        end = source.find("\n\n\n", start)
        body = source[start : end if end != -1 else len(source)].rstrip("\n")
        target = s.checkout.root.joinpath(f"tracker/{home}.py")
        if target.exists():
            tail = target.read_text("utf-8").rstrip("\n").splitlines()[-1]
            s.edit("", f"tracker/{home}.py", f"{tail}\n", f"{tail}\n\n\n{body}\n")
        else:
            s.write("", f"tracker/{home}.py", HEADS[home] + body + "\n")
        s.edit("Out of util.", "tracker/util.py", body, "")
        users = "tracker/__main__.py tracker/legacy.py tracker/render.py tests/test_util.py"
        s.run_bash("Its users.", _rewrite(function, home, users))
        s.run_bash("", "python -m unittest -v")
        s.run_bash("", f"git add -A && git commit -q -m '{function} moves to {home}' && git show --stat HEAD")
    s.run_bash(
        "No function is left in util.",
        "cat tracker/util.py && git grep -n 'tracker.util\\|import util\\|util\\.' -- tracker tests",
    )
    s.run_bash(
        "",
        "git rm -q -f tracker/util.py && git mv tests/test_util.py tests/test_dates_and_text.py && sed -i '/^from tracker import util$/d' tests/test_dates_and_text.py && sed -i 's/^util (everything else), /dates, text, /' README.md && python -m unittest -v",
    )
    s.run_bash("", "git add -A && git commit -q -m 'util is gone' && git show --stat HEAD && cat README.md")
    s.set_todos("", *_todo(2))


HEADS = {
    "dates": '"""Dates as people write and read them."""\n\nfrom datetime import date, timedelta\n\nWEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]\n\n\n',
    "text": '"""Words for a terminal."""\n\n\n',
}


def _rewrite(function: str, home: str, users: str) -> str:
    """The command that points the users of a function to its new module."""
    return (
        f"sed -i -E 's/\\butil\\.{function}\\b/{home}.{function}/g' {users} && "
        f"for f in {users}; do "
        f"if grep -q -E '^from tracker.util import .*\\b{function}\\b' $f; then "
        f"sed -i -E '/^from tracker.util import/ s/(, )?\\b{function}\\b//; s/^from tracker.util import , /from tracker.util import /; /^from tracker.util import *$/d' $f; "
        f"if grep -q '^from tracker.{home} import' $f; then sed -i -E 's/^(from tracker.{home} import .*)$/\\1, {function}/' $f; "
        f"else sed -i '/^from tracker.model import/a from tracker.{home} import {function}' $f; fi; fi; "
        f"if grep -q '{home}\\.{function}' $f && ! grep -q '^from tracker import {home}' $f; then sed -i 's/^from tracker import util$/from tracker import {home}\\nfrom tracker import util/' $f; fi; "
        f"done; git diff -- tests tracker/__main__.py tracker/render.py tracker/legacy.py"
    )


def _legacy(s: Session) -> None:
    s.add_user("Last item of the plan: the CSV import.")
    s.run_bash("", "git grep -n -i 'legacy\\|csv' -- . && sed -n 10,40p tracker/__main__.py")
    s.say("""
        Before I delete it: your rule says that the command line must not change, and `tracker import FILE` is part of it. Removing the
        module means removing the command. Which one wins?
    """)
    s.add_user(
        "Good catch. Remove the command too, that is the one exception. But it should say something helpful instead of argparse's error."
    )
    s.run_bash("", "git rm -q tracker/legacy.py tests/test_legacy.py && ls tracker tests")
    ran = s.run_bash("", "python -m unittest; python -m tracker list")
    assert ran.has_failed
    s.edit("", "tracker/__main__.py", "from tracker import legacy, query", "from tracker import query")
    s.edit("", "tracker/__main__.py", (
        '    elif given.command == "import":\n        items.extend(legacy.read_csv(given.file, today))\n'
    ), (
        '    elif given.command == "import":\n        print("tracker 0.4 no longer reads the CSV files of version 1; use tracker 0.3 once to convert them", file=sys.stderr)\n        return 2\n'
    ))  # fmt: skip
    s.run_bash("", "python -m unittest -v && TRACKER_FILE=none.json python -m tracker import old.csv; echo exit=$?")
    s.run_bash(
        "",
        "sed -i 's/, legacy (the old CSV format)//' README.md && git add -A && git commit -q -m 'The CSV import of version 1 is gone' && git show --stat HEAD",
    )
    s.set_todos("", *_todo(3))


def _month_end(s: Session) -> None:
    s.add_user("""
        A user reports (issue 47): a task due on 31 January with --every 1m crashes when it is done. Can you fix that as well? It should
        go to the last day of the shorter month.
    """)
    s.edit("A test first.", "tests/test_recur.py", "\n\nclass TestFinish", (
        "\n    def test_month_end(self):\n        self.assertEqual(recur.following(date(2025, 1, 31), \"1m\"), date(2025, 2, 28))\n"
        "        self.assertEqual(recur.following(date(2024, 1, 31), \"1m\"), date(2024, 2, 29))\n\n\nclass TestFinish"
    ))  # fmt: skip
    ran = s.run_bash("", "python -m unittest tests.test_recur -v")
    assert ran.has_failed
    s.edit("", "tracker/recur.py", "        return date(day.year + month // 12, month % 12 + 1, day.day)\n", (
        "        year, month = day.year + month // 12, month % 12 + 1\n        return date(year, month, min(day.day, monthrange(year, month)[1]))\n"
    ))  # fmt: skip
    ran = s.run_bash("", "python -m unittest tests.test_recur")
    assert ran.has_failed
    s.edit(
        "The import is missing.",
        "tracker/recur.py",
        "from dataclasses import replace",
        "from calendar import monthrange\nfrom dataclasses import replace",
    )
    s.run_bash("", "python -m unittest -v")
    s.run_bash(
        "", "git add -A && git commit -q -m 'recur: a shorter month ends on its last day (issue 47)' && git show HEAD"
    )
    s.say("""
        Fixed. One thing to know: from 28 February it goes on with 28 March, since only the date itself is stored. To return to the
        31st the wish would have to be stored in the file, and that is version 3.
    """)
    s.add_user("That's fine for 0.4, no version 3 now. Put it into the README as a known limit.")
    s.run_bash(
        "",
        "printf '\\nKnown limit: a task that recurs monthly and once fell on a shorter month stays on that day.\\n' >> README.md && git add -A && git commit -q -m 'README: the known limit of monthly tasks'",
    )


def _close(s: Session) -> None:
    s.add_user("Show me the proof that the output is unchanged, and then everything since 0.3 in one go.")
    s.run_bash("The same commands as at the start.", (
        "mkdir check && cd check && export PYTHONPATH=.. TRACKER_FILE=tasks.json && "
        "python -m tracker add 'water the plants' --every 3d --tag home && python -m tracker add 'pay rent' --due 2025-01-01 --priority 1 && "
        "python -m tracker add 'a title that goes on and on and on until it no longer fits on a single line of the terminal' --tag long && "
        "python -m tracker list && python -m tracker done 2 && python -m tracker list --tag home && cat tasks.json && cd .. && rm -r check"
    ))  # fmt: skip
    s.run_bash("", "git log --oneline && git diff -M --stat $(git rev-list --max-parents=0 HEAD) HEAD")
    s.run_bash("", "git log -p --reverse -M --format='--- %h %s' $(git rev-list --max-parents=0 HEAD)..HEAD")
    s.run_bash("And the code as it is now.", "cat tracker/*.py")
    s.set_todos("", *_todo(4))
    s.say("""
        The output is the same, line by line. Since 0.3: Item is Task, util is split into dates and text, the CSV import is gone with a
        helpful sentence in its place, store.py kept its name because plugins import it, issue 47 is fixed. All tests pass, and every
        commit was green.
    """)
    s.add_user("Great, thank you. I'll tag 0.4 myself; please don't create tags or push.")
    s.say("Neither tagged nor pushed. The branch is main, the working tree is clean.")


def _todo(done: int) -> list[str]:
    items = ["Rename Item to Task", "Split util into dates and text", "Remove the CSV import", "Issue 47: month ends"]
    return [f"[{'x' if n < done else '>' if n == done else ' '}] {item}" for n, item in enumerate(items)]
