"""What is claimed after moves, imports, changes of aliases and files, and commits of hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, close, configure, import_records
from support.commands import command
from support.databases import BACKENDS
from support.givers import item, rep
from support.host_models import MODELS, Host
from support.library import LibraryCatalogue, add_document, db, remove_document
from support.moves import SERVICES, Place, open_place
from support.published_claims import read_claims, read_entries

from flask_ibi_archive import CatalogueRecord, IBIArchive
from flask_ibi_archive.core.claims.claim import parse_claim

Places = tuple[Place, Place]


@pytest.fixture(params=["one kind", pytest.param("different kinds", marks=pytest.mark.slow)])
def places(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Places]:
    """The giver and the taker, in databases of one kind or of different kinds."""
    other = next(kind for kind in BACKENDS if kind != backend)
    taking = backend if request.param == "one kind" else other
    with (
        open_place(backend, tmp_path / "giver", 1) as giver,
        open_place(taking, tmp_path / "taker", 2) as taker,
    ):
        giver.archive.claims.create_key()
        taker.archive.claims.create_key()
        yield giver, taker


def states(app: Flask) -> dict[str, tuple[str, str | None]]:
    """Return the claimed state of each item, and the Archive of its Original."""
    claims = read_claims(app)
    service = archive_of(app).served().service_ibi
    return {
        ibi: (claim.state.value, claim.original_archive)
        for ibi, claim in claims.items()
        if service not in claim.identifiers
    }


def test_after_a_move_the_taker_claims_the_originals_and_the_giver_copies(
    places: Places, tmp_path: Path
) -> None:
    giver, taker = places
    (tmp_path / "a.pdf").write_bytes(b"pdf")
    files = [{"path": "a.pdf", "source": str(tmp_path / "a.pdf")}]
    alias = {"same_as": ["doi:10.5281/zenodo.1"]}
    records = [
        item(1, files=files, **alias),
        item(2, aliases=["b.br/x/2002/02.02.00.00"]),
        item(3, state="Deleted", tombstone={"reason": "withdrawn"}),
        item(4, embargo="2999-01-01"),
        item(5),
    ]
    import_records(giver.archive, records, tmp_path)
    before = read_claims(giver.app)
    assert {rep(n): before[rep(n)].state.value for n in (1, 2, 3, 4, 5)} == {
        rep(1): "Original", rep(2): "Original", rep(3): "Deleted", rep(4): "Original",
        rep(5): "Original",
    }  # fmt: skip
    done = taker.accept(giver.offer(taker, rep(1), rep(2), rep(3), rep(4)))
    assert done.status == 0, done.err
    assert states(taker.app) == {
        rep(1): ("Original", None), rep(2): ("Original", None), rep(3): ("Deleted", None),
        rep(4): ("Original", None),
    }  # fmt: skip
    assert states(giver.app) == {
        rep(1): ("Copy", SERVICES[2]), rep(2): ("Copy", SERVICES[2]), rep(3): ("Deleted", None),
        rep(4): ("Copy", SERVICES[2]), rep(5): ("Original", None),
    }  # fmt: skip
    after = read_claims(taker.app)
    assert after[rep(1)].sha256 == hashlib.sha256(b"pdf").hexdigest() == before[rep(1)].sha256
    assert after[rep(1)].aliases == before[rep(1)].aliases == ("doi:10.5281/zenodo.1",)
    assert after[rep(2)].aliases == ("b.br/x/2002/02.02.00.00",)
    # the taker first claimed Copies: there was never a moment with two Originals
    history = [parse_claim(entry) for entry in read_entries(taker.app)]
    assert [one.state.value for one in history if one.rep == rep(1)] == ["Copy", "Original"]
    # and back
    done = giver.accept(taker.offer(giver, rep(1)))
    assert done.status == 0, done.err
    assert (states(giver.app)[rep(1)], states(taker.app)[rep(1)]) == (
        ("Original", None),
        ("Copy", SERVICES[1]),
    )


def test_an_import_claims_each_item_and_an_update_only_what_it_changes(app: Flask) -> None:
    archive = archive_of(app)
    archive.claims.create_key()
    records = [item(n) for n in range(1, 4)]
    import_records(archive, records)
    assert {rep(n): ("Original", None) for n in range(1, 4)}.items() <= states(app).items()
    size = len(read_entries(app))
    records[1]["embargo"] = "2999-01-01"
    records[2]["same_as"] = ["hdl:20.500.12345/678"]
    import_records(archive, records, on_conflict="update")
    last = [parse_claim(entry) for entry in read_entries(app)[size:]]
    assert rep(3) in [one.rep for one in last]
    assert rep(1) not in [one.rep for one in last]
    assert read_claims(app)[rep(3)].aliases == ("hdl:20.500.12345/678",)


def test_an_import_from_an_export_claims_the_same(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    (tmp_path / "a.pdf").write_bytes(b"pdf")
    files = [{"path": "a.pdf", "source": str(tmp_path / "a.pdf")}]
    import_records(giver.archive, [item(1, files=files), item(2, embargo="2999-01-01")], tmp_path)
    assert giver.run("export", tmp_path / "all.jsonl").status == 0
    assert taker.run("import", tmp_path / "all.jsonl").status == 0
    ours, theirs = read_claims(taker.app), read_claims(giver.app)
    assert {ibi: ours[ibi] for ibi in (rep(1), rep(2))} == {
        ibi: theirs[ibi] for ibi in (rep(1), rep(2))
    }


def test_commands_that_change_aliases_and_states_change_the_claims(app: Flask) -> None:
    archive = archive_of(app)
    archive.claims.create_key()
    ibi = archive.deposit(title="Rain").ibi
    assert command(app, "alias", "add", ibi, "doi:10.5281/zenodo.1").status == 0
    assert read_claims(app)[ibi].aliases == ("doi:10.5281/zenodo.1",)
    assert command(app, "alias", "remove", ibi, "doi:10.5281/zenodo.1").status == 0
    assert read_claims(app)[ibi].aliases == ()
    size = len(read_entries(app))
    assert command(app, "delete", ibi, "--reason", "x", "--yes").status == 0
    [last] = [parse_claim(entry) for entry in read_entries(app)[size:]]
    assert (last.ibip, last.state.value) == (ibi, "Deleted")


@pytest.fixture
def make_host(uri: str, tmp_path: Path) -> Iterator[Callable[[str], Host]]:
    """Makes a host with a kind of models."""
    made: list[Host] = []

    def make(kind: str) -> Host:
        made.append(Host(uri, tmp_path, kind))
        made[-1].archive.claims.create_key()
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.mark.parametrize("kind", MODELS)
def test_the_rows_of_a_host_are_claimed_when_it_commits(
    kind: str, make_host: Callable[[str], Host]
) -> None:
    host = make_host(kind)
    row = host.add("On rain", pdf=host.write("a.txt", "rain"))
    draft = host.add("A draft", state="Draft")
    first, second = row.ibi, draft.ibi
    host.session.commit()  # on SQLite, an open transaction keeps others from writing
    claims = read_claims(host.app)
    assert claims[first].state == "Original"
    assert claims[first].sha256 == hashlib.sha256(b"rain").hexdigest()
    assert second not in claims
    host.session.add(host.Thesis(title="not committed"))
    host.session.flush()
    host.session.rollback()
    assert read_claims(host.app) == claims
    draft.state = "Original"
    host.session.delete(row)
    host.session.commit()
    claims = read_claims(host.app)
    assert (claims[first].state, claims[second].state) == ("Deleted", "Original")


# --- a host's own tables -------------------------------------------------------------------------


class Changing(LibraryCatalogue):
    """A catalogue that lists its changes."""

    def changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterable[CatalogueRecord]:
        return super().changes(since, after, limit)


@pytest.mark.parametrize("catalogue", [LibraryCatalogue, Changing])
def test_the_documents_of_a_library_are_claimed_if_it_lists_its_changes(
    catalogue: type[LibraryCatalogue], uri: str, tmp_path: Path
) -> None:
    app = Flask("library", instance_path=str(tmp_path))
    configure(app, uri, tmp_path, SQLALCHEMY_DATABASE_URI=uri, LIBRARY_FOLDER=str(tmp_path / "l"))
    db.init_app(app)
    ibi_archive = IBIArchive(app, catalogue=catalogue())
    assert command(app, "init").status == 0
    with app.app_context():
        db.create_all()
        ibi = add_document(ibi_archive, "Rain").ibip
    answer = app.test_client().get("/ibi/claims/checkpoint")
    if catalogue is LibraryCatalogue:
        # to claim the service alone would say that the Archive has no items
        assert answer.status_code == 404
        line = "ok   claims: this Archive publishes no claims, because the catalogue of"
        assert line in command(app, "check").out
    else:
        assert read_claims(app)[ibi].state == "Original"
        with app.app_context():
            remove_document(ibi, "withdrawn")
        assert read_claims(app)[ibi].state == "Deleted"
    with app.app_context():
        db.engine.dispose()
    close(app)
