"""The commands of the guide, in their order, at the giver and at the taker."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.archives import import_records
from support.documentation import commands
from support.moves import SERVICES, Place, item, open_place, rep

OFFER = "0123456789abcdef"
GIVER, TAKER = 1, 2
#: Who runs each command, and the exit status.
STEPS = (
    (GIVER, "flask ibi offer --file", 0),
    (TAKER, "flask ibi accept --dry-run", 1),
    (TAKER, "flask ibi accept", 1),
    (GIVER, "flask ibi offers", 0),
    (GIVER, "flask ibi offers withdraw", 1),
    (TAKER, "flask ibi offer --file", 0),
    (GIVER, "flask ibi accept", 0),
)


def test_the_commands_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [
        command
        for command in commands("howto/move.rst")
        if command.startswith(("flask ibi offer", "flask ibi accept"))
    ]
    monkeypatch.chdir(tmp_path)
    with (
        open_place("sqlite", tmp_path / "giver", GIVER) as giver,
        open_place("sqlite", tmp_path / "taker", TAKER) as taker,
    ):
        places: dict[int, Place] = {GIVER: giver, TAKER: taker}
        titles = {number: {"dc": {"title": [f"Annual report {number}"]}} for number in (1, 2, 3)}
        import_records(giver.archive, [item(one, metadata=title) for one, title in titles.items()])
        import_records(taker.archive, [item(3)])  # it stays at the giver, in the open offer
        (tmp_path / "reports.txt").write_text("".join(f"{rep(one)}\n" for one in titles))
        (tmp_path / "moved.txt").write_text(f"{rep(1)}\n{rep(2)}\n")
        address = ""
        for command, (number, start, status) in zip(shown, STEPS, strict=True):
            assert command.startswith(start)
            words = shlex.split(command.replace(OFFER, address.partition("#")[0][-16:]))[2:]
            asks = words[0] == "accept" and words[-1] in ("accept", "--dry-run")
            done = places[number].run(*words, *(["-"] if asks else []), stdin=address)
            assert done.status == status, (command, done.err)
            address = done.out.strip() if "#" in done.out else address
        assert giver.states() == {rep(1): "Original", rep(2): "Original", rep(3): "Original"}
        assert taker.states() == {rep(1): "Copy", rep(2): "Copy", rep(3): "Original"}
    assert SERVICES[TAKER] in shown[0]
