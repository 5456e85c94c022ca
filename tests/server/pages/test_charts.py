"""Charts: the heights and the filling of bars, and the texts for screen readers."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from support.cases import for_each

from flask_ibi_archive.server.pages.charts import (
    FOOT,
    HEIGHT,
    KINDS,
    MAX_LINES,
    MAX_NAMES,
    MIN_PERIODS,
    TOP,
    Bars,
    draw_bars,
    draw_swatch,
    find_step,
)

Element = ElementTree.Element
HOSTILE = "<script>alert('x')</script> & \"quotes\""


def draw(*numbers: tuple[int, int], name: str = "c", words: str = "") -> Element:
    """Return the parsed chart of some numbers."""
    bars = [Bars(f"{words}p{place}", *pair) for place, pair in enumerate(numbers)]
    kinds = (f"{words}views", f"{words}downloads")
    text = draw_bars(bars, name, f"{words}Title", f"{words}About", kinds, lambda n: f"{n:,}")
    return ElementTree.fromstring(text)


def numbers_of(chart: Element, kind: str) -> dict[str, float]:
    """Return the heights of the bars of a kind, by their titles."""
    found = {}
    for bar in chart.findall(f"rect[@class='{kind}']"):
        assert float(bar.attrib["y"]) + float(bar.attrib["height"]) == TOP + HEIGHT
        found[bar.findtext("title", "")] = float(bar.attrib["height"]) / HEIGHT
    return found


def spans(chart: Element) -> list[tuple[float, float]]:
    """Return the left and right ends of the bars, in per cent."""
    found = []
    for bar in chart.findall("rect"):
        x, width = (float(bar.attrib[name].removesuffix("%")) for name in ("x", "width"))
        found.append((x, x + width))
    return sorted(found)


def test_the_height_of_a_bar_is_proportional_to_its_number() -> None:
    chart = draw((10, 5), (0, 1), (1000, 0))
    assert numbers_of(chart, "first") == {"p0: views 10": 0.01, "p2: views 1,000": 1.0}
    assert numbers_of(chart, "second") == {
        "p0: downloads 5": pytest.approx(0.01),
        "p1: downloads 1": pytest.approx(0.01),
    }


@for_each("count", [1, 2, 7, 8, 9, 24, 31, 100])
def test_bars_do_not_overlap_or_leave_the_chart(count: int) -> None:
    found = spans(draw(*[(3, 2)] * count))
    assert len(found) == 2 * count
    assert found[0][0] > 0
    assert found[-1][1] < 100
    assert all(end < begin for (_, end), (begin, _) in pairwise(found))
    assert max(end - begin for begin, end in found) <= 100 * 0.36 / MIN_PERIODS + 0.001


def test_the_two_bars_of_a_period_differ_in_position_and_filling() -> None:
    chart = draw((3, 2))
    first, second = (chart.find(f"rect[@class='{kind}']") for kind in KINDS)
    assert first is not None
    assert second is not None
    assert float(first.attrib["x"][:-1]) < float(second.attrib["x"][:-1])
    for side, kind in enumerate(KINDS):
        swatch = ElementTree.fromstring(draw_swatch(side))
        assert swatch.attrib["aria-hidden"] == "true"
        assert [rect.attrib["class"] for rect in swatch] == [kind]


@for_each(
    ("highest", "step"),
    [
        (0, 1),
        (1, 1),
        (5, 1),
        (6, 2),
        (10, 2),
        (11, 5),
        (25, 5),
        (26, 10),
        (100, 20),
        (101, 50),
        (1001, 500),
        (10**12, 2 * 10**11),
    ],
)
def test_grid_lines_are_at_round_numbers(highest: int, step: int) -> None:
    assert find_step(highest) == step
    chart = draw((highest, 0))
    texts = [text.text for text in chart.findall("text[@text-anchor='end']")]
    top = max(step, -(-highest // step) * step)
    assert texts == [f"{value:,}" for value in range(0, top + 1, step)]
    assert len(texts) <= MAX_LINES + 1


def test_every_step_is_1_2_or_5_times_a_power_of_ten_and_reaches_the_highest() -> None:
    for highest in range(3000):
        step = find_step(highest)
        assert str(step).rstrip("0") in ("1", "2", "5")
        assert step * MAX_LINES >= highest


@for_each(
    ("count", "named"),
    [
        (1, [0]),
        (8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (9, [0, 2, 4, 6, 8]),
        (24, [0, 3, 6, 9, 12, 15, 18, 21]),
        (31, [0, 4, 8, 12, 16, 20, 24, 28]),
    ],
)
def test_long_charts_do_not_name_every_period(count: int, named: list[int]) -> None:
    names = draw(*[(1, 1)] * count).findall("text[@text-anchor='middle']")
    assert [text.text for text in names] == [f"p{place}" for place in named]
    assert len(names) <= MAX_NAMES
    # narrow screens leave out every second one
    assert [text.get("class") for text in names] == [None, "minor"] * (len(names) // 2) + [None] * (
        len(names) % 2
    )


def test_a_chart_has_a_title_and_a_description_for_screen_readers() -> None:
    chart = draw((3, 2), name="asked")
    assert chart.attrib["role"] == "img"
    labels = chart.attrib["aria-labelledby"].split()
    texts = {child.get("id"): (child.tag, child.text) for child in chart}
    assert [texts[label] for label in labels] == [("title", "Title"), ("desc", "About")]
    assert all(label.startswith("asked-") for label in labels)


def test_a_chart_without_accesses_has_lines_and_no_bars() -> None:
    chart = draw((0, 0), (0, 0))
    assert chart.findall("rect") == []
    assert [text.text for text in chart.findall("text[@text-anchor='end']")] == ["0", "1"]


def test_a_small_number_is_visible_next_to_a_great_one() -> None:
    assert numbers_of(draw((1, 10**9)), "first") == {"p0: views 1": pytest.approx(2 / HEIGHT)}


def test_all_text_in_a_chart_is_escaped() -> None:
    chart = draw((3, 2), words=HOSTILE)
    assert {element.tag for element in chart.iter()} == {
        "svg",
        "title",
        "desc",
        "line",
        "text",
        "rect",
    }
    assert chart.findtext("title") == f"{HOSTILE}Title"
    assert chart.findtext("desc") == f"{HOSTILE}About"
    assert chart.findtext("rect/title") == f"{HOSTILE}p0: {HOSTILE}views 3"


def test_a_chart_has_no_references_and_the_height_of_its_contents() -> None:
    bars = [Bars("p", 3, 2)]
    text = draw_bars(bars, "c", "t", "d", ("v", "d"))
    assert not [word for word in ("url(", "http", "href", "style", "font") if word in text]
    assert ElementTree.fromstring(text).attrib["height"] == str(TOP + HEIGHT + FOOT)
