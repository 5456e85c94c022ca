"""Draws bar charts as SVG, for the statistics pages.

Heights are in pixels. Widths are in per cent of the width of the page. As a result, text has the
same size on narrow and wide pages. Each period has a filled bar and an outlined bar. The style
sheet of the page sets the colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

#: The usual distance from the highest grid line to the base line, in pixels.
HEIGHT = 200
#: The space above the highest grid line, in pixels. The upper half of the line's number is here.
TOP = 8
#: The space below the base line for the names of the periods, in pixels.
FOOT = 28
#: The minimum number of periods for which a chart has space. A chart with fewer periods has empty
#: space, because otherwise its bars would be too wide.
MIN_PERIODS = 8
#: The maximum number of names below the base line. Narrow screens show only every second name.
MAX_NAMES = 8
#: The maximum number of grid lines above the base line.
MAX_LINES = 5
#: The CSS classes of the two bars of a period.
KINDS = ("first", "second")
#: The colours of the two bars and of the lines if the page has no style sheet.
COLOURS = ('fill="currentColor"', 'fill="none" stroke="currentColor"')
LINE_COLOUR = 'stroke="currentColor" stroke-opacity="0.5"'


@dataclass(frozen=True, slots=True)
class Bars:
    """The two bars of a period.

    :param name: the text below the bars.
    :param first: the value of the filled bar.
    :param second: the value of the outlined bar.
    """

    name: str
    first: int
    second: int


def find_step(highest: int) -> int:
    """Return the distance between two grid lines, which is 1, 2 or 5 times a power of ten.

    With this distance, a chart needs at most :data:`MAX_LINES` lines.

    :param highest: the highest value in the chart.
    """
    step = 1
    while step * MAX_LINES < highest:
        # the steps are 1, 2, 5, 10, 20, 50 ...
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step


def draw_bars(
    bars: Sequence[Bars],
    name: str,
    title: str,
    description: str,
    kinds: tuple[str, str],
    number: Callable[[int], str] = str,
    height: int = HEIGHT,
) -> str:
    """Return a bar chart as an SVG element, in which all texts are escaped.

    :param bars: the bars of all periods, from left to right. At least one period is required.
    :param name: the text with which the ids in the chart begin. Each chart of a page needs another
        name.
    :param title: the title for screen readers.
    :param description: a description of the chart for screen readers.
    :param kinds: the name of the value of filled bars, and the name of the value of outlined bars.
    :param number: a function that formats a number in the language of the page.
    :param height: the distance from the highest grid line to the base line, in pixels.
    """
    highest = max(max(bar.first, bar.second) for bar in bars)
    step = find_step(highest)
    lines = max(1, -(-highest // step))
    # a slot is the space for a period; empty slots are on both sides of the bars
    slots = max(len(bars), MIN_PERIODS)
    left = (slots - len(bars)) / 2
    drawn = [_draw_line(count / lines, number(count * step), height) for count in range(lines + 1)]
    for index, bar in enumerate(bars):
        for side, value in enumerate((bar.first, bar.second)):
            if value:
                text = f"{bar.name}: {kinds[side]} {number(value)}"
                part = value / (lines * step)
                drawn.append(_draw_bar(left + index, slots, side, part, text, height))
    every = -(-len(bars) // MAX_NAMES)
    for count, index in enumerate(range(0, len(bars), every)):
        kind = ' class="minor"' if count % 2 else ""  # narrow screens hide these names
        drawn.append(_draw_name((left + index + 0.5) / slots, bars[index].name, kind, height))
    return (
        f'<svg class="ibi-chart" role="img" aria-labelledby="{name}-title {name}-about"'
        f' width="100%" overflow="visible" height="{TOP + height + FOOT}">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-about">{escape(description)}</desc>\n' + "\n".join(drawn) + "\n</svg>"
    )


def draw_swatch(side: int) -> str:
    """Return the symbol of a kind of bars for the legend.

    :param side: 0 for the filled bars, 1 for the outlined bars.
    """
    return (
        '<svg class="ibi-swatch" width="14" height="14" aria-hidden="true">'
        f'<rect class="{KINDS[side]}" {COLOURS[side]} x="1" y="1" width="12" height="12"/></svg>'
    )


def _draw_line(part: float, text: str, height: int) -> str:
    y = _pixel(part, height)
    return (
        f'<line class="{"line" if part else "base"}" {LINE_COLOUR}'
        f' x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text fill="currentColor" x="-8" y="{y + 4}" text-anchor="end">{escape(text)}</text>'
    )


def _draw_bar(slot: float, slots: int, side: int, part: float, text: str, height: int) -> str:
    """Return a bar.

    :param slot: the number of the slot, from 0; may be a half.
    :param side: 0 for the filled bar, 1 for the outlined bar.
    :param part: the height of the bar, as a fraction of the height of the chart.
    """
    x = _percent((slot + 0.12 + 0.4 * side) / slots)
    # a bar has a height of at least two pixels, because smaller bars would not be visible
    base = TOP + height
    y = min(_pixel(part, height), base - 2)
    return (
        f'<rect class="{KINDS[side]}" {COLOURS[side]} x="{x}" y="{y}"'
        f' width="{_percent(0.36 / slots)}" height="{base - y}">'
        f"<title>{escape(text)}</title></rect>"
    )


def _draw_name(part: float, name: str, kind: str, height: int) -> str:
    x, base = _percent(part), TOP + height
    return (
        f'<line class="base" {LINE_COLOUR} x1="{x}" x2="{x}" y1="{base}" y2="{base + 4}"/>'
        f'<text{kind} fill="currentColor" x="{x}" y="{base + 18}" text-anchor="middle">'
        f"{escape(name)}</text>"
    )


def _pixel(part: float, height: int) -> int:
    """Return the y coordinate for a fraction of the height; 0 is the base line."""
    return TOP + height - round(height * part)


def _percent(part: float) -> str:
    return f"{part * 100:.3f}".rstrip("0").rstrip(".") + "%"
