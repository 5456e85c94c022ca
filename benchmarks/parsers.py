"""Measure every parser with 100 KB of hostile text of many kinds; the limit is 50 ms.

Run it with ``python -m benchmarks.parsers [LENGTH]``.
"""

from __future__ import annotations

import sys
import time

from support.parsers import PARSERS, Parser, hostile_texts, try_to_parse

LENGTH = 100_000
LIMIT = 0.05
SHOWN = 10


def measure(parse: Parser, text: str) -> float:
    """Return the CPU seconds of a parser for a text: the minimum of some runs if one is slow."""
    taken = []
    while len(taken) < 3:
        begun = time.process_time()
        try_to_parse(parse, text)
        taken.append(time.process_time() - begun)
        if taken[0] < LIMIT / 2 or taken[0] > 20 * LIMIT:
            break
    return min(taken)


def main() -> None:
    """Print the slowest parsers, each with the text that takes longest."""
    length = int(sys.argv[1]) if len(sys.argv) > 1 else LENGTH
    slowest = []
    for name, parse in PARSERS.items():
        seconds, text = max((measure(parse, text), text) for text in hostile_texts(length))
        slowest.append((seconds, name, text))
        if seconds > LIMIT:
            print(f"{seconds * 1000:8.1f} ms  {name}: {text[:40]!a} ...  over {LIMIT}", flush=True)
    for seconds, name, text in sorted(slowest, reverse=True)[:SHOWN]:
        print(f"{seconds * 1000:8.1f} ms  {name}: {text[:40]!a} ...")
    sys.exit(1 if max(slowest)[0] > LIMIT else 0)


if __name__ == "__main__":
    main()
