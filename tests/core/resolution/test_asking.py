"""Whom to ask, for each situation of claims."""

from __future__ import annotations

from support.cases import for_each

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.asking import Claims, choose_archives

STATES = {"o": State.ORIGINAL, "c": State.COPY, "d": State.DELETED}
#: Archives 1 to 5 publish claims, 8 and 9 do not. Archive 5 does not answer.
ALWAYS, SILENT = (8, 9), (5,)

#: The claims (the number of the Archive, and Original, Copy or Deleted), the Archives with the same
#: prefix, and the hint; what the reader wants: any item, the Original of the item itself, or a
#: related item. Then whom to ask first and afterwards, who is optional, whose claim may stand in
#: for an answer, and who is not asked although it claims the item.
SITUATIONS = """
claims    prefix  hint  wanted            first  others  optional  stand-ins  silent
-         -       -     item              -      -       -         -          -
1o        -       -     item              1      -       -         -          -
1c,2o,3d  -       -     item              2      1,3     -         3d         -
1d,2c     -       -     item              2      1       -         1d         -
1d        -       -     item              1      -       -         1d         -
1c,5o     -       -     item              1      5       -         -          -
5o        -       -     item              5      -       -         -          -
5d        -       -     item              5      -       -         5d         -
8o        -       -     item              8      -       -         -          -
8d,1c     -       -     item              1      8       -         -          -
-         1,5,8   -     item              -      -       1         -          -
1o        2       -     item              1      -       -         -          -
1c        2       -     item              1      -       2         -          -
1d        1,2     -     item              1      -       2         1d         -
8o        2       -     item              8      -       2         -          -
-         -       8     item              8      -       -         -          -
-         2       1     item              -      -       1,2       -          -
-         -       5     item              -      -       -         -          -
1o        -       8     item              1      -       -         -          -
1d        -       8     item              8      1       -         1d         -
1d,8c     -       8     item              8      1       -         1d         -
1c        2,5,8   3     item              1      -       3,2       -          -
1d        1,2     -     item              1      -       2         1d         -
1c        2       -     related           1      -       2         -          -
1o,3d     -       -     related           1      3       -         -          -
1o        -       -     Original          1      -       -         1o         -
1o,2o,3c  -       -     Original          1,2    3       -         1o,2o      -
1o,5o     -       -     Original          1      -       -         1o,5o      5
5o,1c,2d  -       -     Original          5      1,2     -         5o,2d      -
1o,8o     -       -     Original          1,8    -       -         1o         -
1o,2c,8c  -       -     Original          1      2       -         1o         -
1c,2d     3       -     Original          1,2    -       3         2d         -
-         3       8     Original          -      -       3         -          -
1o,3c,5o  2       -     related-Original  1,3    -       -         -          5
3c        2       -     related-Original  3      -       2         -          -
"""


def parse_ids(text: str) -> list[int]:
    """Return the numbers in a cell."""
    return [] if text == "-" else [int(word.rstrip("ocd")) for word in text.split(",")]


def parse_states(text: str) -> dict[int, State]:
    """Return the claims in a cell."""
    return {int(word[:-1]): STATES[word[-1]] for word in text.split(",") if word != "-"}


@for_each("line", SITUATIONS.strip().splitlines()[1:])
def test_whom_to_ask(line: str) -> None:
    claims, prefix, hint, wanted, *expected = line.split()
    found = choose_archives(
        Claims(parse_states(claims), parse_ids(prefix)),
        ALWAYS,
        SILENT,
        next(iter(parse_ids(hint)), None),
        requires_original="Original" in wanted,
        names_item="related" not in wanted,
    )
    first, others, optional, stand_ins, silent = expected
    assert list(found.first) == parse_ids(first)
    assert list(found.others) == parse_ids(others)
    assert list(found.optional) == parse_ids(optional)
    assert found.stand_ins == parse_states(stand_ins)
    assert list(found.silent) == parse_ids(silent)
    assert found.asks_always


@for_each(
    "wanted",
    [
        ("1o,2c,8d", False, [1], [2, 8, 9]),
        ("1o,2c,8d", True, [1, 8, 9], [2]),
        ("8o,1c", False, [8], [1, 9]),
        ("-", False, [], [8, 9]),
        ("-", True, [8, 9], []),
    ],
)
def test_each_archive_is_asked_in_one_step(
    wanted: tuple[str, bool, list[int], list[int]],
) -> None:
    claims, requires_original, first, second = wanted
    asking = choose_archives(Claims(parse_states(claims)), ALWAYS, SILENT, None, requires_original)
    steps = [list(asking.list_step(one, requires_original, ALWAYS)) for one in (True, False)]
    assert steps == [first, second]
