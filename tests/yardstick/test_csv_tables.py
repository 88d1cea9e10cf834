"""Tables as CSV: every number is one that a program can compute with."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold_yardstick.csv_tables import render_csv
from tenfold_yardstick.page import build_tables
from tenfold_yardstick.tables import Table, format_seconds
from tests.yardstick.yardsticks import make_yardstick


def parse(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(table).decode())))


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        (["2.5k", "-"], {"x": ["2500.0", ""]}),
        (["98%", "104%"], {"x": ["0.98", "1.04"]}),
        (["1,968", "17"], {"x": ["1968", "17"]}),
        (["0.50M", "-"], {"x": ["500000.00", ""]}),
        (["$44.23", "$1,044.20"], {"x (USD)": ["44.23", "1044.20"]}),
        (["1.02 ms", "17.3 s", "0.65 us"], {"x (s)": ["0.00102", "17.3", "0.00000065"]}),
        (["12 MB", "-"], {"x (MB)": ["12", ""]}),
        (["0.60 to 0.87", "-"], {"x low": ["0.60", ""], "x high": ["0.87", ""]}),
        (["1", "1 to 3"], {"x low": ["1", "1"], "x high": ["1", "3"]}),
        (["9/169", "-"], {"x": ["9", ""], "x of": ["169", ""]}),
        (["56", "12 of 56"], {"x": ["56", "12"], "x of": ["", "56"]}),
        (["+0.137", "-0.02"], {"x": ["0.137", "-0.02"]}),
        (
            ["0.876 langchain/trim", "1.000 mask-10"],
            {"x": ["0.876", "1.000"], "x which": ["langchain/trim", "mask-10"]},
        ),
        (["0.750", "0.700 (3 of 14)"], {"x": ["0.750", "0.700"], "x which": ["", "3 of 14"]}),
        (["it asks a server", "3 files are missing"], {"x": ["it asks a server", "3 files are missing"]}),
        (["12 MB", "Windows does not say"], {"x (MB)": ["12", "Windows does not say"]}),
        (["4k/8k"], {"x": ["4000"], "x of": ["8000"]}),
        (["0a1b", "-"], {"x": ["0a1b", ""]}),
    ],
)
def test_a_cell_becomes_numbers(cells: list[str], columns: dict[str, list[str]]) -> None:
    rows = parse(Table("t", ("method", "x"), [(f"m{n}", cell) for n, cell in enumerate(cells)]))
    assert {name: [row[name] for row in rows] for name in rows[0] if name != "method"} == columns


@given(st.floats(min_value=1e-7, max_value=1e5))
def test_every_time_comes_back_in_seconds(seconds: float) -> None:
    (row,) = parse(Table("t", ("method", "time"), [("a", format_seconds(seconds))]))
    assert float(row["time (s)"]) == pytest.approx(seconds, rel=6e-3, abs=6e-10)


def test_names_stay_names() -> None:
    assert [row["method"] for row in parse(Table("t", ("method", "x"), [("2024", "1"), ("10 %", "2")]))] == [
        "2024",
        "10 %",
    ]


def test_in_the_tables_of_every_part_what_looks_like_a_number_is_one() -> None:
    for part in build_tables(make_yardstick()).values():
        for table in part:
            for row in parse(table):
                for name, cell in list(row.items())[1:]:
                    if cell[:1].isdigit():
                        assert float(cell) >= 0, (table.title, name, cell)
