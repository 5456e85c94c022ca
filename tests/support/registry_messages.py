"""Requests and records of the document registry: Hypothesis strategies, and their arguments."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from hypothesis import strategies as st

from flask_ibi_archive.core.identifiers import canonical_address, parse_identifier
from flask_ibi_archive.core.protocol.languages import LANGUAGES
from flask_ibi_archive.core.protocol.registry_2008.model import (
    LOCATION,
    ChangeActor,
    ChangeEMailAddress,
    ChangePassword,
    Credentials,
    DeleteDocumentRegistration,
    DisplayIDRegistration,
    DocumentLocation,
    DocumentRecord,
    DocumentRegistration,
    MetadataLocation,
    RegisterActor,
    RegisterDocument,
    RegistryRequest,
    format_fields,
    format_location,
)
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import list_arguments
from support.identifier_strategies import ALPHANUM, addresses, repository_names, words

ids = (
    repository_names()
    .filter(lambda text: len(text) <= 255)
    .map(lambda text: parse_identifier(text).text)
)
#: Any Unicode text without control characters and surrogates.
passwords = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
    min_size=1,
    max_size=20,
)
emails = st.builds(lambda user, host: f"{user}@{host}.br", words, words)
urls = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}.br{port}/{path}",
    st.sampled_from(["http", "https"]),
    words,
    st.sampled_from(["", ":8080"]),
    st.text(ALPHANUM + "/%?&=+;#@:[]'~!$()*,._-", max_size=20),
)
dates = st.datetimes(
    datetime(1000, 1, 1), datetime(9998, 12, 31), timezones=st.just(timezone.utc)
).map(lambda date: date.replace(microsecond=0))
metadata = st.builds(
    MetadataLocation,
    urls,
    dates,
    st.none() | st.text(ALPHANUM + "_-", min_size=1, max_size=8),
    st.none() | st.sampled_from([*sorted(LANGUAGES), "pt-BR"]),
)


@st.composite
def locations(draw: st.DrawFn) -> DocumentLocation:
    """Return a location with a URL of the document, metadata, or both."""
    has_url = draw(st.booleans())
    return DocumentLocation(
        url=draw(urls) if has_url else None,
        updated_at=draw(dates) if has_url else None,
        metadata=tuple(draw(st.lists(metadata, min_size=not has_url, max_size=3))),
        previous_edition_url=draw(st.none() | urls),
        next_edition_url=draw(st.none() | urls),
    )


credentials = st.builds(Credentials, ids, passwords)
_requests: list[st.SearchStrategy[Any]] = [
    st.builds(
        RegisterActor,
        computer_name=st.lists(words, min_size=1, max_size=2).map(".".join),
        ip=addresses.map(canonical_address),
        domain_name=words.map("{}.br".format),
        port=st.integers(1, 65535),
        email=emails,
        password=passwords,
        actor_id=st.none() | ids,
    ),
    st.builds(ChangePassword, credentials, passwords),
    st.builds(ChangeEMailAddress, credentials, emails),
    st.builds(RegisterDocument, credentials, locations(), st.none() | ids, st.booleans()),
    st.builds(ChangeActor, credentials, ids, ids),
    st.builds(DeleteDocumentRegistration, credentials, ids),
    st.builds(DisplayIDRegistration, credentials, ids),
]
requests = st.one_of(_requests)


def format_request(request: RegistryRequest) -> list[tuple[str, str]]:
    """Return the arguments of a request, in the order of [P]."""
    verb = type(request).__name__
    names = [name for name, _ in list_arguments(verb) if name not in LOCATION]
    arguments = [("verb", verb)]
    if not isinstance(request, RegisterActor):
        arguments += format_fields(request.credentials, names[:2])
        names = names[2:]
    arguments += format_fields(request, names)
    if isinstance(request, RegisterDocument):
        arguments += [pair for line in format_location(request.location) for pair in line]
    return arguments


@st.composite
def records(draw: st.DrawFn) -> DocumentRecord:
    """Return the record of a document with up to two copies."""
    actor_ids = draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    return DocumentRecord(
        draw(ids),
        tuple(
            [
                DocumentRegistration(
                    actor_id=actor_id,
                    is_copy=number > 0,
                    is_original=number == 0 and draw(st.booleans()),
                    location=draw(locations()),
                )
                for number, actor_id in enumerate(actor_ids)
            ]
        ),
    )
