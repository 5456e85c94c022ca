"""Checks of the Archive: the health check of a server, and ``flask ibi check``.

The health check (:func:`list_readiness_checks`) examines only this computer and the database. The
command ``flask ibi check`` (:func:`check_archive`) also sends requests to the Archive's own address
and to the resolver. Every server imports this module when it starts. Therefore the HTTP client is
imported only in the functions that send requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Flask, current_app, got_request_exception, has_request_context, request
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.archive.claims import NO_LIMIT
from flask_ibi_archive.archive.claims import PATH as CLAIMS_PATH
from flask_ibi_archive.archive.identification.keys import PATH, find_status, list_keys
from flask_ibi_archive.archive.items.read import count_newer_files
from flask_ibi_archive.archive.items.served_archives import find_archives, find_served
from flask_ibi_archive.archive.service.catalogue import RecordSource
from flask_ibi_archive.archive.service.local_resolution import resolve_locally
from flask_ibi_archive.core.protocol.hosts import extract_host, is_public_host, normalize_host
from flask_ibi_archive.core.protocol.inclusion import CLASH, CLASH_REQUEST, SERVICE_IBI
from flask_ibi_archive.core.protocol.pairs import format_query_string
from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.core.resolution.persistent_url import (
    ResolutionRequest,
    parse_persistent_target,
)
from flask_ibi_archive.errors import (
    NotReady,
    RegistrationError,
    TransportError,
    one_line,
)
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.commands.group import (
    MAX_ANSWER,
    TIMEOUT,
    CheckFailed,
    CheckWarning,
    Finding,
    run_check,
)
from flask_ibi_archive.server.config import EXTENSION
from flask_ibi_archive.server.database.database import check_writable_folder
from flask_ibi_archive.server.web.requests import current_archive

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

    from flask_ibi_archive.archive.archive import Archive

#: The maximum number of records of a host's own catalogue that are checked.
CHECKED_RECORDS = 100
PROXY_GUIDE = "docs/howto/reverse-proxy.rst"
MOUNT_ADVICE = (
    "if the app is mounted under a path, set APPLICATION_ROOT to this path, and let the web server "
    f"pass it on (see {PROXY_GUIDE})"
)


def list_readiness_checks(archive: Archive) -> dict[str, Callable[[], None]]:
    """Return a function for each thing that must be ready: "database", "replica" and "files".

    The function raises NotReady or ConfigError if the thing is not ready.
    """
    return {
        "database": partial(check_database, archive),
        "replica": partial(check_replica, archive),
        "files": partial(check_files, archive.config.files_folder),
    }


def check_database(archive: Archive) -> None:
    """Check that the database can be written, and that it contains the Archive of this server.

    :raises NotReady: if a check fails. The message contains the reason and advice.
    :raises ConfigError: if the database contains several Archives and the settings do not name one
        of them.
    """
    archive.database.check()
    served, wanted = archive.served(), archive.config.archive_service_ibi
    found = archive.database.read(lambda connection: find_served(connection, wanted))
    if found != served:
        raise NotReady(
            f"the database was replaced: it contains the Archive {found.service_ibi} now, but this "
            f"server serves {served.service_ibi}",
            "restart the server",
        )


def check_files(folder: Path) -> None:
    """Check that the folder of files exists and can be written.

    The command ``flask ibi init`` creates this folder.

    :raises NotReady: if the folder cannot be written or does not exist.
    """
    if not folder.is_dir():
        raise NotReady(
            "the folder of files is missing",
            "set IBI_FILES_FOLDER to the right folder, or create the folder: flask ibi init",
            str(folder.absolute()),
        )
    check_writable_folder("the folder of files", folder, "IBI_FILES_FOLDER")


def check_replica(archive: Archive) -> None:
    """Check that the replica, if there is one, has the tables and the Archive of the database.

    :raises NotReady: if the replica does not answer, or is a copy of another database.
    """
    replica = archive.replica
    if replica is None:
        return
    replica.check_revision()
    if archive.served() not in replica.read(find_archives):
        raise NotReady(
            "the replica does not contain the Archive of the database",
            "set IBI_READ_DATABASE_URI to a replica of the database of the Archive",
        )


def check_archive(archive: Archive) -> Iterator[Finding]:
    """Yield the findings of all checks.

    The checks concern the configuration, the database, the files, the claims, the host's own
    catalogue if it has one, the session and the rows of the host's own models, the pages, the
    persistent URLs, the Archive's own address, the resolver and the registration.
    """

    def check(name: str, function: Callable[..., str], *arguments: Any) -> Finding:
        return run_check(name, partial(function, archive, *arguments))

    yield check(_("configuration"), _check_configuration)
    yield check(_("name"), _check_name)
    database = check(_("database"), _check_database)
    yield database
    yield check(_("files"), _check_files, database.ok)
    if not database.ok:
        text = "the address was not checked, because the Archive can't answer without the database"
        yield Finding(_("address"), False, text)
        yield check(_("resolver"), _check_resolver, False)
        text = "the registration was not checked, because it is stored in the database"
        yield Finding(_("registration"), False, text)
        return
    if archive.config.identification:
        yield check(_("programs"), _check_programs)
    yield check(_("claims"), _check_claims)
    readable = True
    if archive.items.records is not None:
        catalogue = check(_("catalogue"), _check_catalogue, archive.items.records)
        yield catalogue
        readable = catalogue.ok
    embedded = current_archive()
    if embedded.session is not None:
        from flask_ibi_archive.archive.hosts import sync

        yield run_check(_("session"), partial(sync.check_session, embedded.session))
        for model in sync.find_models(embedded.session):
            yield run_check(_("rows"), partial(sync.check_rows, embedded, model))
    yield check(_("pages"), _check_pages)
    if readable:
        yield check(_("persistent URLs"), _check_persistent_urls)
    yield check(_("address"), _check_address)
    yield check(_("resolver"), _check_resolver, True)
    yield check(_("registration"), _check_registration)


def _check_programs(archive: Archive) -> str:
    """Check that a program has a valid key, and that keys are not sent without encryption."""
    keys, now = list_keys(archive.database, archive.served().id), archive.clock()
    valid = [key for key in keys if find_status(key, now) == "valid"]
    if not valid:
        raise CheckFailed("no program has a valid key; run: flask ibi api-key create")
    host = extract_host(archive.config.archive_address)
    if archive.config.url_scheme != "https" and is_public_host(host):
        raise CheckFailed(
            "the keys of programs are sent without encryption; set PREFERRED_URL_SCHEME to https"
        )
    return f"{len(valid)} programs may use {archive.addresses.base}{PATH}"


def _check_configuration(archive: Archive) -> str:
    prefixes = " and ".join(archive.config.check_minting())
    text = _("new identifiers begin with {prefixes}; those that exist stay as they are")
    return _(text, prefixes=prefixes)


def _check_name(archive: Archive) -> str:
    name = archive.config.archive_name
    if name is None:
        text = _("the repository has no name; set IBI_ARCHIVE_NAME, for pages and citations")
        raise CheckWarning(text)
    return _("the repository is called {name}", name=name)


def _check_database(archive: Archive) -> str:
    archive.database.check()
    check_replica(archive)
    replica = "" if archive.replica is None else _(", and its replica answers")
    service = archive.served().service_ibi
    text = _("the database is up to date{replica}; the service IBI is {service}")
    return _(text, replica=replica, service=service)


def _check_files(archive: Archive, compares: bool) -> str:
    """Check that the folder of files can be written, and fits the database.

    :param compares: whether to look for files that are newer than the last change in the database.
        There are such files if an older database was restored.
    """
    folder, files = archive.config.files_folder, archive.files_folder
    check_files(folder)
    if compares and (newer := archive.database.read(partial(count_newer_files, files=files))):
        raise CheckFailed(
            f"{newer} files in {folder} are newer than the last change in the database, and no "
            "item has them; if an older database was restored, repeat what was done since (see "
            "docs/howto/backup.rst)"
        )
    return _("{folder} can be written", folder=folder)


def _check_claims(archive: Archive) -> str:
    """Check that resolvers can read the claims, and that no older database was restored."""
    claims = archive.claims
    hindrance = claims.find_hindrance()
    if hindrance is not None:
        return _("no claims are published: {reason}", reason=hindrance)
    # the last position is written there before a page is sent
    check_writable_folder("the folder of the claims", claims.key.folder, "IBI_FOLDER")
    # as a resolver reads them, but without numbering changes
    expected = {f"{CLAIMS_PATH}/key": claims.find_public_key(), f"{CLAIMS_PATH}?limit=0": NO_LIMIT}
    for path, text in expected.items() if EXTENSION in current_app.blueprints else ():
        answer, __ = _dispatch(archive, path)
        if answer.text != text:
            raise CheckFailed(
                f"the app itself answers {path}, with status {answer.status_code}; resolvers "
                "can't read the claims (see docs/howto/your-app-has.rst)"
            )
    if claims.is_restored():
        raise CheckFailed(
            "the database is older than the claims that were published last; resolvers read all "
            "claims again by themselves. Repeat what was done since (see docs/howto/backup.rst)"
        )
    text = _("{path} can be read; the key is in {key}")
    return _(text, path=CLAIMS_PATH, key=claims.key.folder)


def _check_catalogue(archive: Archive, records: RecordSource) -> str:
    """Read some records of a host's own catalogue, to find wrong records."""
    records.find_record(archive.served().service_ibi)
    if not records.can_list:
        return f"{records.name} can be read; it can't list its items"
    listed = list(records.list(limit=CHECKED_RECORDS))
    for record in listed:
        # lists call records(), but resolvers and pages call record(), while they answer a request
        with current_app.test_request_context(), suppress(HTTPException):
            if records.find_record(ibi := record.identifiers[0]) is None:
                raise CheckFailed(
                    f"records() of {records.name} contains {ibi}, but record({ibi!r}) returns None"
                )
    return f"{records.name} can be read; records that were checked: {len(listed)}"


def _check_pages(archive: Archive) -> str:
    """Request a page of the Archive and an answer for harvesters, in this process."""
    if EXTENSION not in current_app.blueprints:
        return _("this app serves no pages (routes=False)")
    path = archive.addresses.archive_statistics().removeprefix(archive.addresses.base)
    answer, is_ours = _dispatch(archive, path)
    if answer.status_code >= 500:
        raise CheckFailed(f"the app answers {path} with status {answer.status_code}; see its log")
    if answer.status_code == 200:
        # the protection of forms in the app must not refuse the POST of a harvester; without a
        # verb, the answer is an error, and no changes are published
        answer, is_ours = _dispatch(archive, "/ibi/oai", "POST", data={})
        if is_ours and answer.status_code == 400:
            raise CheckFailed(
                "the app refuses POST requests of harvesters to /ibi/oai; if it has CSRFProtect of "
                f"Flask-WTF, call csrf.exempt(app.blueprints['{EXTENSION}']) after "
                "ibi.init_app(app)"
            )
        return _("{path} can be shown", path=path)
    text = f"the app itself answers {path}, with status {answer.status_code}"
    if answer.location and answer.location == f"https{archive.addresses.base[4:]}{path}":
        raise CheckWarning(f"{text}, a redirect to https; set PREFERRED_URL_SCHEME to 'https'")
    if is_ours or _is_gate(answer.status_code):
        raise CheckWarning(
            f"{text}; if the pages of the Archive are public, let requests pass whose "
            f"request.blueprint is '{EXTENSION}' (see docs/howto/your-app-has.rst)"
        )
    return text


def _is_gate(status: int) -> bool:
    """Return whether the status of a page may come from a login that users must pass first."""
    return status in (401, 403) or 300 <= status < 400


def _check_persistent_urls(archive: Archive) -> str:
    """Request the persistent URL of an item, in this process."""
    records = archive.items.records
    if EXTENSION not in current_app.blueprints:
        return "this app does not answer them (routes=False)"
    if not archive.config.local_resolution:
        return "IBI_LOCAL_RESOLUTION is false; only the resolver answers them"
    if records is not None and not records.can_list:
        return f"not checked, because {records.name} can't list its items"
    item = next(archive.find(state="Original", limit=1), None)
    if item is None:
        return _("not checked, because there is no item yet")
    path = f"/{item.ibi}"
    asked = ResolutionRequest(parse_persistent_target(path), path, ("127.0.0.1",))
    outcome = resolve_locally(archive, asked)
    answer, __ = _dispatch(archive, path, "HEAD")
    if isinstance(outcome, Redirect) and answer.headers.get("Location") != outcome.url:
        raise CheckFailed(
            f"a route of the app answers {path}; its view should begin with "
            "ibi.answer_persistent_url() (see docs/howto/your-app-has.rst)"
        )
    base, address = archive.config.persistent_url_base or "", archive.config.archive_address
    is_here = normalize_host(urlsplit(base).netloc) == normalize_host(address)
    if isinstance(outcome, Redirect) and is_here:
        _ask_persistent_url(archive, archive.persistent_url(item))
    return _("the app answers {path}", path=path)


def _dispatch(
    archive: Archive, path: str, method: str = "GET", **options: Any
) -> tuple[TestResponse, bool]:
    """Send a request to the app in this process, without a server, and return the answer.

    The request passes the WSGI middleware of the app, which may prepare what its layout needs.

    :param options: further arguments of the request.
    :returns: the response, and whether a route of this package has answered.
    :raises CheckFailed: if the app raises an exception.
    """
    raised: list[Exception] = []

    def note(app: Flask, exception: Exception) -> None:
        raised.append(exception)

    options.update(base_url=archive.addresses.base, method=method, buffered=True)
    is_ours = False
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    with (
        got_request_exception.connected_to(note, app),
        current_app.test_client(use_cookies=False) as client,
    ):
        try:
            answer = client.open(path, **options)
            is_ours = has_request_context() and request.blueprint == EXTENSION
        except Exception as error:  # noqa: BLE001 - in debug mode or of middleware
            raised.append(error)
    for exception in raised:
        name = type(exception).__name__
        raise CheckFailed(f"{path} fails: {name}: {one_line(exception)}") from exception
    return answer, is_ours


def _check_address(archive: Archive) -> str:
    """Request the service and a page at their public addresses, as a resolver and a reader do."""
    from flask_ibi_archive.archive.joining.registration import call_own_address

    service, root = archive.served().service_ibi, archive.config.application_root
    try:
        url = call_own_address(archive, TIMEOUT)
        if EXTENSION in current_app.blueprints:
            _ask_page(archive)
    except TransportError as error:
        advice: str = _("check that IBI_ARCHIVE_ADDRESS is right and that the server runs")
        raise CheckFailed(_("{error}; {advice}", error=error, advice=advice)) from error
    except RegistrationError as error:
        advice = (
            "another program may use this address; or what is in front of the app, such as a login "
            f"check, a web server or DispatcherMiddleware, must pass requests for /{service} on to "
            f"{root}/{service} of the app (see {PROXY_GUIDE})"
        )
        raise CheckFailed(_("{error}; {advice}", error=error, advice=advice)) from error
    return _("{url} answers", url=url)


def _ask_page(archive: Archive) -> None:
    """Check that the public address of a page leads to this app, and is not redirected to itself.

    An app that redirects to https does so for ever if the web server in front of it does not say
    which requests have https.

    :raises TransportError: if the server does not answer.
    """
    from flask_ibi_archive.server.http.transport import fetch

    page = archive.addresses.archive_statistics()
    answer = fetch(page, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None)
    if answer.headers.get("location") == page:
        raise CheckFailed(
            f"{page} is redirected to itself; the web server in front of the app must send the "
            f"header X-Forwarded-Proto (see {PROXY_GUIDE})"
        )
    path = page.removeprefix(archive.addresses.base)
    if answer.status == 404 and _dispatch(archive, path)[0].status_code != 404:
        raise CheckFailed(f"{page} answers with status 404; {MOUNT_ADVICE}")
    records = archive.items.records
    item = None
    if records is None or records.can_list:
        # a list, so that the transaction has ended when the page is requested
        items = [*archive.find(state="Original", limit=CHECKED_RECORDS)]
        item = next((one for one in items if one.is_open), None)
    url, status, location = page, answer.status, answer.headers.get("location", "")
    if item is not None and not _is_gate(status):
        url = archive.addresses.item(item)
        status, location = _ask_head(url)
    if _is_gate(status):
        text = f"{url} answers with status {status}"
        if location == f"https{url[4:]}":
            raise CheckWarning(f"{text}, a redirect to https; set PREFERRED_URL_SCHEME to 'https'")
        raise CheckWarning(
            f"{text}, as a check whether users have logged in does; if the pages are public, let "
            "what is in front of the app pass their requests"
        )


def _ask_head(url: str) -> tuple[int, str]:
    """Send a HEAD request; return the status and the header Location of the answer.

    A GET request would be counted as an access.
    """
    from flask_ibi_archive.server.http.guarded_http import sending
    from flask_ibi_archive.server.http.transport import HEADERS, explain

    try:
        with sending("HEAD", url, headers=HEADERS, seconds=TIMEOUT, inner_hosts=None) as answer:
            return answer.status_code, answer.headers.get("Location", "")
    except Exception as error:  # noqa: BLE001 - explained as for any request
        raise explain(url, error) from None


def _ask_persistent_url(archive: Archive, url: str) -> None:
    """Check that the server redirects a persistent URL."""
    status, __ = _ask_head(url)
    if not 300 <= status < 400:
        raise CheckFailed(
            f"{url} answers with status {status} instead of a redirect; let it lead to the app, or "
            f"set IBI_PERSISTENT_URL_BASE to {archive.addresses.base}; {MOUNT_ADVICE}"
        )


def _check_resolver(archive: Archive, asks: bool) -> str:
    """Check that the resolver answers, and that no other Archive mints with the same prefix.

    :param asks: whether the resolver is asked about the prefix. This needs the service IBI, and so
        a database that answers.
    """
    from flask_ibi_archive.archive.joining.registration import CHANGE_PORT
    from flask_ibi_archive.server.http.transport import fetch, find_alert, without_password

    resolver_url = archive.config.resolver_url
    url = without_password(resolver_url)
    question = [CLASH_REQUEST, (SERVICE_IBI, archive.served().service_ibi)] if asks else []
    query = format_query_string(question)
    try:
        answer = fetch(resolver_url, query, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None)
    except TransportError as error:
        advice = _("check that IBI_RESOLVER_URL is right and that the Internet can be reached")
        raise CheckFailed(_("{error}; {advice}", error=error, advice=advice)) from error
    if answer.status >= 500:
        raise CheckFailed(f"{url} answers with status {answer.status}; try again later")
    if clash := find_alert(answer.body, CLASH):
        raise CheckFailed(f"{url} says that {clash}; {CHANGE_PORT}")
    return _("{url} answers", url=url)


def _check_registration(archive: Archive) -> str:
    from flask_ibi_archive.archive.joining import registration

    ok, text = registration.describe(registration.read_registration(archive), archive.config)
    if not ok:
        raise CheckFailed(text)
    return text
