"""Try a million forged URL keys, none of which may be accepted.

Run it with ``python -m benchmarks.forged_keys``.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from flask_ibi_archive.archive.service.url_keys import URLKeys
from flask_ibi_archive.core.protocol.inclusion import is_key

NOW = time.time()
OURS = URLKeys(["older", "a secret"], 3600, lambda: NOW)
THEIRS = URLKeys(["another secret", "a secret "], 3600, lambda: NOW)
LATE = URLKeys(["older", "a secret"], 3600, lambda: NOW - 3602)
EARLY = URLKeys(["older", "a secret"], 3600, lambda: NOW + 3600)
GOOD = [OURS.issue(item) for item in range(1, 1001)]
BODY = 128


def parts(key: str) -> tuple[int, int]:
    """Return the two numbers that a key consists of."""
    second, _, digits = key.partition("-")
    return int(second), int(digits)


def any_number(dice: random.Random) -> str:
    """Return a key of the right length and time with a random signature."""
    return f"{int(NOW)}-{1 << 256 | dice.getrandbits(256)}"


def a_bit_flipped(dice: random.Random) -> str:
    """Return a valid key with one to three bits inverted."""
    second, value = parts(dice.choice(GOOD))
    for bit in dice.sample(range(256), dice.randint(1, 3)):
        value ^= 1 << bit
    return f"{second}-{value}"


def a_digit_changed(dice: random.Random) -> str:
    """Return a valid key with one digit changed anywhere, also in its time."""
    key = dice.choice(GOOD)
    place = dice.choice([place for place, sign in enumerate(key) if sign != "-"])
    return key[:place] + str((int(key[place]) + dice.randint(1, 9)) % 10) + key[place + 1 :]


def spliced(dice: random.Random) -> str:
    """Return the item of one valid key with the signature of another one."""
    (second, value), (_, other) = (parts(key) for key in dice.sample(GOOD, 2))
    return f"{second}-{value >> BODY << BODY | other & (1 << BODY) - 1}"


def of_another_item(dice: random.Random) -> str:
    """Return a valid key with the number of another item."""
    second, value = parts(dice.choice(GOOD))
    return f"{second}-{value ^ dice.randint(1, 2**32) << 192}"


def of_another_time(dice: random.Random) -> str:
    """Return a valid key with another time."""
    second, value = parts(dice.choice(GOOD))
    return f"{second + dice.choice([-1, 1]) * dice.randint(1, 3600)}-{value}"


def of_another_secret(dice: random.Random) -> str:
    """Return a key that another server issued."""
    return THEIRS.issue(dice.randint(1, 1000))


def expired(dice: random.Random) -> str:
    """Return a key of this server that has expired or is not valid yet."""
    return dice.choice([LATE, EARLY]).issue(dice.randint(1, 1000))


FORGERS: list[Callable[[random.Random], str]] = [
    any_number,
    a_bit_flipped,
    a_digit_changed,
    spliced,
    of_another_item,
    of_another_time,
    of_another_secret,
    expired,
]


def main() -> None:
    """Forge keys; exit with status 1 if one is accepted."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    dice = random.Random(20150222)
    assert all(OURS.read(key) is not None for key in GOOD)
    tried: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    spent = 0.0
    for count in range(number):
        forge = FORGERS[count % len(FORGERS)]
        key = forge(dice)
        assert is_key(key)
        start = time.perf_counter()
        facts = OURS.read(key)
        is_valid = facts is not None and OURS.is_current(facts)
        spent += time.perf_counter() - start
        tried[forge.__name__] += 1
        taken[forge.__name__] += is_valid
    for name, tries in tried.items():
        print(f"{tries:9,} {name:18} {taken[name]} accepted")
    print(f"{number:9,} in {spent:.1f} s, {spent / number * 1e6:.1f} microseconds each")
    sys.exit(1 if taken.total() else 0)


if __name__ == "__main__":
    main()
