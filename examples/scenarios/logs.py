"""Cleaning the readings of eight weather stations, with the gateway's log as the witness. Recorded as a pi session."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from examples.recorder.session import Session

START = 1_743_494_400  # 2025-04-01 08:00 UTC


class Trouble(NamedTuple):
    """One station: what the agent sees, thinks, and writes as a rule and its check."""

    station: str
    seen: str
    look: str
    thought: str
    rule: str
    code: str
    check: str
    note: str
    user: str = ""
    reply: str = ""
    proof: str = ""


def play(root: Path, project: Path) -> Session:
    """Plays the session in a checkout below `root`, filled with the files of `project`."""
    session = Session("logs", START, cwd="/home/dev/weather")
    session.open(root)
    session.checkout.fill(project)
    session.checkout.run(
        "python make_data.py && rm make_data.py && git init -q -b main && git add -A && git commit -q -m 'March data as delivered'"
    )
    _begin(session)
    for number, trouble in enumerate(TROUBLES, 1):
        _station(session, trouble, number)
    _whole(session)
    _report(session)
    return session


def _begin(s: Session) -> None:
    s.add_user("""
        raw/ has the March readings of eight weather stations, gateway/gateway.log is what the two gateways logged. Something is
        wrong with nearly every station. Find out what, and make clean.py produce clean/ from raw/. Rules:
        - raw/ and gateway/ are evidence (dataset id WX-2025-03, DOI 10.5555/wx.2025.03): never change or delete anything in them.
        - Never drop a row. Mend it or flag it, and the flag must say what was done.
        - Write every finding down in notes.md, one paragraph per station, with the evidence.
        - No pandas. The field laptops have a bare Python 3.11.
    """)
    s.think(
        "Eight stations, one trouble each probably. Inspect all first, then one at a time, checking the log for the cause."
    )
    s.run_both("First the files and the tools that are here.", [
        "git ls-files && wc -l raw/*.csv gateway/gateway.log", "cat clean.py inspect_station.py notes.md", "head -5 raw/*.csv",
    ])  # fmt: skip
    s.run_bash("All stations at a glance.", "for f in raw/*.csv; do python inspect_station.py $f; done")
    s.run_bash(
        "And the log by kind of message.",
        "sed -E 's/^[^ ]+ [^ ]+ //; s/seq=[0-9]+/seq=N/' gateway/gateway.log | sort | uniq -c | sort -rn",
    )
    s.set_todos("One item per station, then a check of the whole.", *_todo(0))
    s.say("""
        At a glance: ST-01 has a humidity of 0 to 9 percent, ST-02 reaches 56.7 degrees, ST-03 shows one value for 31 hours, ST-04
        carries another time offset, ST-05 repeats times, ST-06 goes down to -999, ST-07 has a gap, and ST-08 is the only one
        I cannot tell yet: its wind is high but not absurd. I'll take them in order.
    """)
    s.add_user("Fine. For stuck sensors use 3 hours as the limit: more than 3 equal readings in a row is stuck.")


def _station(s: Session, t: Trouble, number: int) -> None:
    log = f"grep {t.station} gateway/gateway.log | grep -v stored | head -20; grep -c {t.station} gateway/gateway.log"
    s.run_both(t.seen, [f"python inspect_station.py raw/{t.station}.csv", t.look])
    s.think(t.thought)
    s.run_bash(f"Does the gateway know anything about {t.station}?", log)
    if t.user:
        s.add_user(t.user)
        if t.proof:
            s.run_bash("Let me compare with a neighbour before I answer.", t.proof)
        s.say(t.reply)
    s.edit(t.rule, "clean.py", "RULES = [", f"{t.code}\n\n\nRULES = [")
    name = t.code.partition("def ")[2].partition("(")[0]
    old = s.checkout.root.joinpath("clean.py").read_text("utf-8")
    listed = old[old.index("RULES = [") : old.index("]", old.index("RULES = [")) + 1]
    inner = listed.removeprefix("RULES = [").removesuffix("]")
    s.edit("", "clean.py", listed, f"RULES = [{inner + ', ' if inner else ''}{name}]")
    if not s.checkout.root.joinpath("test_clean.py").exists():
        s.write("A test file to go with the rules.", "test_clean.py", TESTS)
    s.edit("", "test_clean.py", "\n\nif __name__", f"\n{t.check}\n\nif __name__")
    s.run_bash("", "python -m unittest -v test_clean")
    s.run_bash(
        "",
        f"python clean.py raw/{t.station}.csv && python inspect_station.py clean/{t.station}.csv && grep -n -E ',[a-z]' clean/{t.station}.csv | head -30",
    )
    s.run_bash("Into the notes, and committed.", (
        f"cat >> notes.md <<'END'\n\n## {t.station}\n\n{t.note}\nEND\ngit add -A && git commit -q -m '{t.station}: {name.replace('_', ' ')}' && git show --stat HEAD"
    ))  # fmt: skip
    if number in {3, 6}:
        s.set_todos("", *_todo(number))


TESTS = """import unittest

import clean


def rows(*temperatures, time="2025-03-03T00:00:00Z", wind="2.0"):
    return [
        {"time": time, "station": "ST-00", "temperature": t, "humidity": "50", "wind": wind, "flag": ""}
        for t in temperatures
    ]


class Rules(unittest.TestCase):
    def test_no_rule_drops_a_row(self):
        for rule in clean.RULES:
            with self.subTest(rule=rule.__name__):
                some = rows("1.0", "2.0", "3.0")
                rule(some)
                self.assertEqual(len(some), 3)


if __name__ == "__main__":
    unittest.main()
"""


def method(name: str, *lines: str) -> str:
    """A test method of the class Rules."""
    return "\n".join([f"    def test_{name}(self):", *(f"        {line}" for line in lines)]) + "\n"


TROUBLES = (
    Trouble(
        "ST-01", "ST-01: which values can't be read?", "grep -n -E ',[0-9]+,[0-9],[0-9]+,' raw/ST-01.csv | head -60",
        "The comma is inside a field that isn't quoted, so the row has six cells: humidity holds the fraction. DictReader puts the last into None.",
        "Decimal commas without quotes: the row has one cell too many. The reader leaves the surplus under the key None, so it can be put right without guessing.",
        'def decimal_comma(rows):\n    """12,3 without quotes: the fraction slid into the next column, and everything after it by one."""\n    for row in rows:\n        surplus = row.pop(None, None)\n        if surplus:\n            row["temperature"] = f"{row[\'temperature\']}.{row[\'humidity\']}"\n            row["humidity"], row["wind"] = row["wind"], surplus[0]\n            flag(row, "comma")',
        method("decimal_comma", 'some = rows("12")', 'some[0].update(humidity="3", wind="50")', 'some[0][None] = ["2.0"]', "clean.decimal_comma(some)",
               'self.assertEqual((some[0]["temperature"], some[0]["humidity"], some[0]["wind"]), ("12.3", "50", "2.0"))'),
        "Rows 62 to 111 of the file (5 March 12:00 to 7 March 13:00) have a decimal comma in the temperature, unquoted, so all later cells slid by one. Mended, flag `comma`.",
    ),
    Trouble(
        "ST-02", "ST-02: where do the high temperatures begin?", "sed -n '112,132p' raw/ST-02.csv; awk -F, '$3 > 30' raw/ST-02.csv | wc -l",
        "It jumps between two hours and stays. 32 + 9/5 t fits: (x - 32) * 5/9 gives the usual daily curve. The log shows a firmware update in the hour before.",
        "A jump from one hour to the next, right after a firmware update that reset the settings: Fahrenheit. A rule by station and hour, since a threshold would miss cool hours.",
        'FAHRENHEIT_FROM = {"ST-02": "2025-03-08T00:00:00Z"}\n\n\ndef fahrenheit(rows):\n    """Temperatures in Fahrenheit since a firmware update reset the settings."""\n    for row in rows:\n        start = FAHRENHEIT_FROM.get(row["station"])\n        if start and row["time"] >= start:\n            row["temperature"] = f"{(float(row[\'temperature\']) - 32) * 5 / 9:.1f}"\n            flag(row, "fahrenheit")',
        method("fahrenheit", 'some = rows("50.0", time="2025-03-09T00:00:00Z")', 'some[0]["station"] = "ST-02"', "clean.fahrenheit(some)", 'self.assertEqual(some[0]["temperature"], "10.0")'),
        "From 8 March 00:00 UTC on the temperature is in Fahrenheit: gateway gw-1 logged `firmware 2.1.9 -> 2.2.0, settings reset` at 23:00 the evening before. Converted, flag `fahrenheit`.",
        "Careful with ST-02: don't decide by a threshold, decide by the time of the firmware update. Winter nights in Fahrenheit look like summer days in Celsius.",
        "Agreed, and that is what I have: everything from 2025-03-08T00:00:00Z on, whatever the value.",
    ),
    Trouble(
        "ST-03", "ST-03: the run of one value.", "awk -F, 'NR>1 {if ($3==p) n++; else {if (n>2) print n+1, p, \"ending at\", t; n=0}; p=$3; t=$1}' raw/ST-03.csv; sed -n '38,76p' raw/ST-03.csv",
        "31 equal values while humidity and wind move: the temperature sensor is stuck. Nothing in the log. Can't be mended, only flagged. The limit the user gave: more than 3.",
        "31 hours at 6.3 while humidity and wind go on moving. There is nothing to mend it from, so it is flagged, with your limit of 3.",
        'STUCK_AFTER = 3\n\n\ndef stuck(rows):\n    """More than STUCK_AFTER equal temperatures in a row: the sensor hangs. Flagged, values left as they are."""\n    for _, group in itertools.groupby(rows, key=lambda row: row["temperature"]):\n        same = list(group)\n        if len(same) > STUCK_AFTER:\n            for row in same:\n                flag(row, "stuck")',
        method("stuck", 'some = rows("6.3", "6.3", "6.3", "6.3", "7.0")', "clean.stuck(some)", 'self.assertEqual([row["flag"] for row in some], ["stuck"] * 4 + [""])'),
        "From 4 March 16:00 to 5 March 22:00 the temperature reads 6.3 for 31 hours while humidity and wind move. The sensor hung. Left as it is, flag `stuck`. The gateways logged nothing.",
    ),
    Trouble(
        "ST-04", "ST-04: the time offset.", "cut -d, -f1 raw/ST-04.csv | head -30; cut -d, -f1 raw/ST-04.csv | sed -E 's/.*([Z+].*)/\\1/' | sort | uniq -c",
        "Every row is +01:00 and starts at 01:00 local = 00:00 UTC, so the instants are right; only the spelling differs. Convert to Z.",
        "The whole file is in local time with its offset written out. The instants are right, only the spelling is not ours.",
        'def utc(rows):\n    """Times with another offset, spelled as UTC."""\n    for row in rows:\n        if not row["time"].endswith("Z"):\n            time = datetime.datetime.fromisoformat(row["time"]).astimezone(datetime.UTC)\n            row["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")\n            flag(row, "utc")',
        method("utc", 'some = rows("1.0", time="2025-03-03T01:00:00+01:00")', "clean.utc(some)", 'self.assertEqual(some[0]["time"], "2025-03-03T00:00:00Z")'),
        "All 200 times carry +01:00. They are the right instants. Rewritten as UTC, flag `utc`.",
    ),
    Trouble(
        "ST-05", "ST-05: repeated times.", "cut -d, -f1 raw/ST-05.csv | sort | uniq -d; sort raw/ST-05.csv | uniq -d | wc -l",
        "The repeats are byte-equal and the log says 'ack lost, sending again'. The user forbids dropping rows: flag the second.",
        "Twelve rows are there twice, byte for byte, and the log has `ack lost, sending again` for each. I may not drop them, so the second of each pair is flagged.",
        'def repeated(rows):\n    """The same row sent again after a lost acknowledgement. The second is flagged."""\n    seen = set()\n    for row in rows:\n        key = (row["time"], row["temperature"], row["humidity"], row["wind"])\n        if key in seen:\n            flag(row, "repeated")\n        seen.add(key)',
        method("repeated", 'some = rows("1.0", "1.0")', "clean.repeated(some)", 'self.assertEqual([row["flag"] for row in some], ["", "repeated"])'),
        "Twelve rows were sent twice after a lost acknowledgement (gateway gw-1, every 17 hours). Both are kept, the second has the flag `repeated`.",
        "Hm, every 17 hours? Interesting. Write to the operator about it later: ops@example.org, ticket GW-118. And keep both rows, as I said at the start.",
        "Both rows stay. I'll mention GW-118 and the 17 hours in the report.",
    ),
    Trouble(
        "ST-06", "ST-06: the -999.", "grep -n -e '-999' raw/ST-06.csv; grep -E 'ERROR' gateway/gateway.log",
        "-999 is a marker for missing, with E17 in the log at each. Blank the temperature, flag missing.",
        "Four times -999, and for each the log has `sensor bus timeout, code E17`: the station's way of saying that there is no value.",
        'def missing(rows):\n    """-999 means that the station had no value."""\n    for row in rows:\n        if row["temperature"] == "-999":\n            row["temperature"] = ""\n            flag(row, "missing")',
        method("missing", 'some = rows("-999", "-9.9")', "clean.missing(some)", 'self.assertEqual([row["temperature"] for row in some], ["", "-9.9"])'),
        "Four temperatures are -999 (4 March 07:00, 6 March 05:00 and 06:00, 8 March 20:00). Gateway gw-2 logged E17, sensor bus timeout, at each. Blanked, flag `missing`.",
    ),
    Trouble(
        "ST-07", "ST-07: the gap.", "sed -n '88,96p' raw/ST-07.csv; grep -c errno gateway/gateway.log",
        "Seven hours without rows, log: no answer (errno 110). Not dropping a row is one thing; inventing rows is another. Only flag the first row after the gap.",
        "Seven hours are missing and the gateway says why: no answer, errno 110. I will not invent rows; the first one after the gap gets a flag.",
        'def gap(rows):\n    """The first row after hours without any."""\n    for before, after in itertools.pairwise(rows):\n        hours = (parsed(after) - parsed(before)) / datetime.timedelta(hours=1)\n        if hours > 1:\n            flag(after, f"gap-{hours:.0f}h")\n\n\ndef parsed(row):\n    return datetime.datetime.fromisoformat(row["time"].replace("Z", "+00:00"))',
        method("gap", 'some = rows("1.0") + rows("2.0", time="2025-03-03T05:00:00Z")', "clean.gap(some)", 'self.assertEqual([row["flag"] for row in some], ["", "gap-5h"])'),
        "No rows from 6 March 18:00 to 7 March 00:00 UTC: gateway gw-2 got no answer (errno 110). Nothing was filled in; the first row after it has the flag `gap-8h`.",
    ),
    Trouble(
        "ST-08", "ST-08, the one I could not tell: wind per day.", "awk -F, 'NR>1 {d=substr($1,1,10); s[d]+=$5; n[d]++; if ($5>m[d]) m[d]=$5} END {for (d in s) printf \"%s mean %.2f max %.1f\\n\", d, s[d]/n[d], m[d]}' raw/ST-08.csv | sort; sed -n '148,156p' raw/ST-08.csv",
        "Wind mean jumps by about 3.6 from 9 March 06:00: km/h instead of m/s. The same firmware update as on ST-02, an hour earlier in the log.",
        "The mean goes up three to four times from 9 March on, the hour after the same firmware update as on ST-02. The factor fits 3.6: kilometres an hour.",
        'KMH_FROM = {"ST-08": "2025-03-09T06:00:00Z"}\n\n\ndef kilometres_an_hour(rows):\n    """Wind in km/h since a firmware update reset the settings."""\n    for row in rows:\n        start = KMH_FROM.get(row["station"])\n        if start and row["time"] >= start:\n            row["wind"] = f"{float(row[\'wind\']) / 3.6:.1f}"\n            flag(row, "km/h")',
        method("kilometres_an_hour", 'some = rows("1.0", time="2025-03-10T00:00:00Z", wind="36.0")', 'some[0]["station"] = "ST-08"', "clean.kilometres_an_hour(some)", 'self.assertEqual(some[0]["wind"], "10.0")'),
        "From 9 March 06:00 UTC on the wind is in km/h; gw-2 logged the update to firmware 2.2.0 the hour before. Divided by 3.6, flag `km/h`.",
        "Are you sure about ST-08? There was a storm warning for the 9th.",
        "Yes: the log has the firmware update in the hour before, and ST-07 and ST-06 stay at their usual 3 m/s on that day. A storm would show there as well.",
        "for f in raw/ST-06.csv raw/ST-07.csv; do awk -F, 'NR>1 && $1 ~ /2025-03-(08|09|10)/ {d=substr($1,1,10); s[d]+=$5; n[d]++} END {for (d in s) printf \"%s %s mean %.2f\\n\", FILENAME, d, s[d]/n[d]}' $f | sort; done",
    ),
)  # fmt: skip


def _whole(s: Session) -> None:
    s.add_user(
        "Correction from my side: the limit for stuck sensors should be 4 hours, not 3. Three calm hours at night are normal."
    )
    s.run_bash("How much changes?", "python clean.py raw/*.csv; cut -d, -f6 clean/*.csv | sort | uniq -c | sort -rn")
    s.edit("", "clean.py", "STUCK_AFTER = 3", "STUCK_AFTER = 4")
    s.run_bash("", "python -m unittest -v test_clean")
    s.edit("The test had the old limit in it. Five equal ones now.", "test_clean.py", (
        '        some = rows("6.3", "6.3", "6.3", "6.3", "7.0")\n        clean.stuck(some)\n        self.assertEqual([row["flag"] for row in some], ["stuck"] * 4 + [""])'
    ), (
        '        some = rows("6.3", "6.3", "6.3", "6.3", "6.3", "7.0", "7.0", "7.0", "7.0")\n        clean.stuck(some)\n        self.assertEqual([row["flag"] for row in some], ["stuck"] * 5 + [""] * 4)'
    ))  # fmt: skip
    s.run_bash(
        "",
        "python -m unittest -v test_clean && python clean.py raw/*.csv && cut -d, -f6 clean/*.csv | sort | uniq -c | sort -rn",
    )
    s.run_bash(
        "",
        "git add -A && git commit -q -m 'Stuck means more than 4 equal readings' && git show HEAD -- clean.py test_clean.py",
    )
    s.run_bash("Every station again, cleaned.", "for f in clean/*.csv; do python inspect_station.py $f; done")
    s.add_user(
        "Is there anything left that your rules did not catch? Look at the rows themselves, not only at the summary."
    )
    for number in range(1, 9):
        station = f"ST-{number:02d}"
        s.run_bash(
            f"{station}, all flagged rows and every tenth other.",
            f"awk -F, 'NR==1 || $6 != \"\" || NR%10==0' clean/{station}.csv",
        )
    s.say("""
        I read them all. Nothing new: the flagged rows are the ones in the notes, the others follow the day. What a rule cannot see is
        a value that is wrong and plausible; for that we would need a second sensor.
    """)


def _report(s: Session) -> None:
    s.add_user("""
        Then write report.md: a table with station, trouble, rows concerned, what was done. Below it a short text for the operator
        about GW-118. Keep it under a page, and no adjectives.
    """)
    s.run_bash("The numbers for the table from the data, not from memory.", (
        "for f in clean/*.csv; do printf '%s ' $f; tail -n +2 $f | cut -d, -f6 | tr ' ' '\\n' | grep . | sort | uniq -c | tr '\\n' ';'; echo; done"
    ))  # fmt: skip
    s.write("", "report.md", REPORT)
    s.run_bash(
        "Raw data untouched?",
        "git diff --exit-code $(git rev-list --max-parents=0 HEAD) HEAD -- raw gateway && echo untouched; sha256sum raw/*.csv | head -3",
    )
    s.add_user('Please call the column "hours" rather than "rows": for the readers a row is an hour.')
    s.edit("", "report.md", "| station | trouble | rows | done |", "| station | trouble | hours | done |")
    s.run_bash("", "git add -A && git commit -q -m 'Report' && git log --oneline && cat report.md notes.md")
    s.set_todos("", *_todo(8))
    s.say("""
        Done: eight rules in clean.py with a test each, clean/ made from raw/, findings in notes.md, report.md with the table. raw/
        and gateway/ are as delivered. Open: the operator should look into GW-118 (a lost acknowledgement every 17 hours on gw-1).
    """)
    s.add_user("Good work. I'll send the letter to ops@example.org myself, don't do anything about GW-118 for now.")


REPORT = """# March 2025, WX-2025-03

| station | trouble | rows | done |
|---|---|---|---|
| ST-01 | decimal comma, cells slid by one | 50 | mended |
| ST-02 | Fahrenheit since firmware 2.2.0 | 80 | converted |
| ST-03 | temperature sensor hung | 31 | flagged |
| ST-04 | local time with offset | 200 | rewritten as UTC |
| ST-05 | sent twice after a lost acknowledgement | 12 | second flagged |
| ST-06 | -999 after a sensor bus timeout (E17) | 4 | blanked |
| ST-07 | no answer for seven hours (errno 110) | 1 | first row after the gap flagged |
| ST-08 | wind in km/h since firmware 2.2.0 | 50 | converted |

Two stations changed their units with firmware 2.2.0, which resets the settings. Stations that are to be updated need their
units set again afterwards.

## To the operator, ticket GW-118

Gateway gw-1 loses the acknowledgement to ST-05 every 17 hours, from the fourth hour on; the station then sends the reading
again. Twelve readings are in the data twice. Please check what else runs on gw-1 at that interval.
"""


def _todo(done: int) -> list[str]:
    items = [f"{t.station}: find the trouble, write the rule, note the evidence" for t in TROUBLES]
    return [f"[{'x' if n < done else '>' if n == done else ' '}] {item}" for n, item in enumerate(items)]
