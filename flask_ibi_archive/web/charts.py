"""Draws bar charts as SVG, for the statistics pages.

Heights are in pixels and widths in per cent of the page, so that text has the same size on narrow
and wide pages. Each period has two bars, a filled one and an outlined one. The style sheet of the
page sets the colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

#: The distance from the highest grid line to the base line, in pixels.
HEIGHT = 200
#: The space above the highest grid line for the upper half of its number, in pixels.
TOP = 8
#: The space below the base line for the names of the periods, in pixels.
FOOT = 28
#: The bars of a chart with fewer periods are as wide as those of a chart with this number.
FEWEST_SLOTS = 8
#: The largest number of names below the base line; narrow screens show every second one.
MOST_NAMES = 8
#: The largest number of grid lines above the base line.
MOST_LINES = 5
#: The CSS classes of the two bars of a period.
KINDS = ("first", "second")


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
    """Return the distance between two grid lines: 1, 2 or 5 times a power of ten.

    :param highest: the highest value, which must need at most :data:`MOST_LINES` lines.
    """
    step = 1
    while step * MOST_LINES < highest:
        # 1, 2, 5, 10, 20, 50 ...
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step


def draw_bars(
    bars: Sequence[Bars],
    name: str,
    title: str,
    description: str,
    kinds: tuple[str, str],
    number: Callable[[int], str] = str,
) -> str:
    """Return a bar chart as an SVG element; all text in it is escaped.

    :param bars: the periods in their order, at least one.
    :param name: the beginning of the ids in the chart, unique within the page.
    :param title: the title for screen readers.
    :param description: a description of the chart for screen readers.
    :param kinds: the names of the first and the second value.
    :param number: formats a number in the page's language.
    """
    highest = max(max(bar.first, bar.second) for bar in bars)
    step = find_step(highest)
    lines = max(1, -(-highest // step))
    slots = max(len(bars), FEWEST_SLOTS)
    left = (slots - len(bars)) / 2
    drawn = [_draw_line(count / lines, number(count * step)) for count in range(lines + 1)]
    for place, bar in enumerate(bars, 1):
        for side, count in enumerate((bar.first, bar.second)):
            if count:
                text = f"{bar.name}: {kinds[side]} {number(count)}"
                drawn.append(_draw_bar(left + place - 1, slots, side, count / (lines * step), text))
    every = -(-len(bars) // MOST_NAMES)
    for count, place in enumerate(range(0, len(bars), every)):
        kind = ' class="minor"' if count % 2 else ""
        drawn.append(_draw_name((left + place + 0.5) / slots, bars[place].name, kind))
    return (
        f'<svg class="chart" role="img" aria-labelledby="{name}-title {name}-about"'
        f' width="100%" height="{TOP + HEIGHT + FOOT}">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-about">{escape(description)}</desc>\n' + "\n".join(drawn) + "\n</svg>"
    )


def draw_swatch(side: int) -> str:
    """Return the symbol of the first (0) or the second (1) value for the legend."""
    return (
        '<svg class="swatch" width="14" height="14" aria-hidden="true">'
        f'<rect class="{KINDS[side]}" x="1" y="1" width="12" height="12"/></svg>'
    )


def _draw_line(part: float, text: str) -> str:
    y = _pixel(part)
    return (
        f'<line class="{"line" if part else "base"}" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text x="-8" y="{y + 4}" text-anchor="end">{escape(text)}</text>'
    )


def _draw_bar(slot: float, slots: int, side: int, part: float, text: str) -> str:
    # small values have a height of two pixels, to be visible
    y = min(_pixel(part), _pixel(0) - 2)
    return (
        f'<rect class="{KINDS[side]}" x="{_percent((slot + 0.12 + 0.4 * side) / slots)}" y="{y}"'
        f' width="{_percent(0.36 / slots)}" height="{_pixel(0) - y}">'
        f"<title>{escape(text)}</title></rect>"
    )


def _draw_name(part: float, name: str, kind: str) -> str:
    x, base = _percent(part), _pixel(0)
    return (
        f'<line class="base" x1="{x}" x2="{x}" y1="{base}" y2="{base + 4}"/>'
        f'<text{kind} x="{x}" y="{base + 18}" text-anchor="middle">{escape(name)}</text>'
    )


def _pixel(part: float) -> int:
    """Return the y coordinate of a point at a fraction of the height."""
    return TOP + HEIGHT - round(HEIGHT * part)


def _percent(part: float) -> str:
    return f"{part * 100:.3f}".rstrip("0").rstrip(".") + "%"
