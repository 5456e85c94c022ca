"""The form of the librarian: it withdraws items without a row of the host."""

from __future__ import annotations

import pytest
from flask import Flask
from flask_wtf import CSRFProtect
from itsdangerous import URLSafeTimedSerializer
from support.librarians import Librarian, read_fields
from support.web import rep

from flask_ibi_archive import Archive


@pytest.fixture
def thesis(archive: Archive) -> str:
    """The identifier of an item."""
    return str(archive.deposit(title="Ice clouds over the Amazon basin").ibi)


def test_an_item_is_withdrawn_with_a_reason(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    successor = archive.deposit(title="Rain, corrected")
    response = librarian.send(f"?withdraw={thesis}", reason=" ")
    assert response.status_code == 422
    assert "Fill in this field." in response.text
    response = librarian.send(f"?withdraw={thesis}", reason="An error.", successor="no identifier")
    assert response.status_code == 422
    assert 'id="successor-fault"' in response.text
    assert "An error.</textarea>" in response.text
    fields = {"reason": "An error.", "successor": successor.ibi, "citation": ""}
    assert librarian.send(f"?withdraw={thesis}", **fields).status_code == 303
    item = archive.get(thesis)
    assert item is not None
    assert item.record.tombstone is not None
    assert item.record.tombstone.reason == "An error."
    assert item.record.tombstone.successor == successor.ibi
    assert item.record.metadata is not None


def test_the_description_is_deleted_if_the_librarian_says_so(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    librarian.send(f"?withdraw={thesis}", reason="The law.", discard_description="1")
    item = archive.get(thesis)
    assert item is not None
    assert item.record.metadata is None


def test_items_that_have_no_form_say_why(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    archive.delete(thesis, "An error.")
    assert "This item was removed" in librarian.get(f"?withdraw={thesis}", 409)
    assert "No item of this Archive" in librarian.get(f"?withdraw={rep(9)}", 404)
    assert "No item of this Archive" in librarian.get("?withdraw=x", 404)
    service = archive.served().service_ibi
    assert "No item of this Archive" in librarian.get(f"?withdraw={service}", 404)


# --- requests of other sites


def _sign(archive: Archive, number: str) -> str:
    keys = list(archive.config.secret_keys)
    return str(URLSafeTimedSerializer(keys, salt="ibi_form").dumps(number))


@pytest.mark.parametrize("kind", ["none", "invented", "of another session", "signed for nobody"])
def test_a_form_without_the_token_of_the_session_changes_nothing(
    app: Flask, archive: Archive, librarian: Librarian, thesis: str, kind: str
) -> None:
    form = read_fields(librarian.get(f"?withdraw={thesis}"))
    other = read_fields(Librarian(app.test_client()).get(f"?withdraw={thesis}"))
    token = {
        "none": "",
        "invented": "x",
        "of another session": other["ibi_token"][0],
        "signed for nobody": _sign(archive, "x"),
    }[kind]
    data = {**form, "ibi_token": token, "reason": "An error."}
    response = librarian.client.post(f"/care?withdraw={thesis}", data=data)
    assert response.status_code == 422
    assert "Send it again." in response.text
    item = archive.get(thesis)
    assert item is not None
    assert item.record.state == "Original"
    # the form that comes back has a new token
    again = {**read_fields(response.text), "reason": "An error."}
    assert librarian.client.post(f"/care?withdraw={thesis}", data=again).status_code == 303


def test_the_token_of_the_extension_of_the_host_is_in_the_forms(
    app: Flask, librarian: Librarian, thesis: str
) -> None:
    CSRFProtect(app)
    form = read_fields(librarian.get(f"?withdraw={thesis}"))
    path = f"/care?withdraw={thesis}"
    without = {name: value for name, value in form.items() if name != "csrf_token"}
    assert librarian.client.post(path, data={**without, "reason": "None."}).status_code == 400
    assert librarian.client.post(path, data={**form, "reason": "None."}).status_code == 303
