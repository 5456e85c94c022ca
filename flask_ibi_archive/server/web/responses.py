"""Build responses: pages for people, static files, and lists of pairs for programs.

An Archive and a resolver serve the same files under ``/ibi/static/``. The URLs in pages contain a
version, so that browsers keep the files until they change.

Archives and resolvers exchange messages as lists of pairs. Each pair is a line "name value".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from flask import Response, current_app, jsonify, make_response, render_template, request
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, Template, TemplateNotFound

from flask_ibi_archive.core.protocol.messages import MAX_QUERY
from flask_ibi_archive.core.protocol.pairs import ALERT, format_pairs
from flask_ibi_archive.errors import ConfigError, IBIError, NotReady
from flask_ibi_archive.server.config import RESOLVER_EXTENSION
from flask_ibi_archive.server.web import requests
from flask_ibi_archive.server.web.texts import OWN_TEMPLATES, gettext, page_language, set_language

FOLDER = Path(__file__).parent / "static"
#: The static files and their content types.
STATIC_TYPES = {"ibi.css": "text/css; charset=utf-8", "ibi.js": "text/javascript; charset=utf-8"}
_CONTENTS = {name: (FOLDER / name).read_bytes() for name in STATIC_TYPES}
_VERSIONS = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in _CONTENTS.items()}


def find_static_url(name: str) -> str:
    """Return the URL of a file for a page, with the version of the file."""
    return f"{requests.request_root()}/ibi/static/{name}?v={_VERSIONS[name]}"


def send_static_file(name: str) -> Response:
    """Return a static file. Its URL in pages contains a version."""
    response = Response(_CONTENTS[name], content_type=STATIC_TYPES[name])
    response.headers["X-Content-Type-Options"] = "nosniff"
    # a page of another version, from before or after an upgrade, must not fix the wrong content
    is_current = request.args.get("v") == _VERSIONS[name]
    response.headers["Cache-Control"] = (
        "public, max-age=31536000, immutable" if is_current else "no-cache"
    )
    response.set_etag(_VERSIONS[name])
    response.make_conditional(request)
    return response


#: The value of Retry-After in a 503 response. A client may try again after this number of seconds.
RETRY_AFTER = "10"
#: The folders of the templates. Templates of the host are in the first folder. They may extend the
#: templates of the package, which are in the second folder.
TEMPLATE_FOLDERS = ("ibi_archive", "ibi_archive/default")
#: The key of the environment of the templates in ``app.extensions``.
ENVIRONMENT = "ibi_template_environment"
POLICY_HEADER = "Content-Security-Policy"
#: The key of the policy of the response in the WSGI environment of a request.
POLICY = "ibi.content_security_policy"
#: The Content-Security-Policy of files that can contain scripts. These scripts must not have the
#: rights of scripts of the host.
SANDBOX_POLICY = "sandbox allow-scripts allow-forms allow-popups allow-downloads"
#: The headers of a response with a list of pairs.
PAIRS_HEADERS = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]


def render_page(template: str, status: int = 200, **values: object) -> Response:
    """Return a page of an Archive or a resolver in the reader's language.

    A template of the host has precedence over the template of the package with the same name.

    :param template: the file name of the template, without the folder and without ``.html``.
    :param values: variables of the template. The template also gets the language.
    """
    html = render_template(
        find_environment().select_template(list_templates(template)),
        ibi_base=find_base_template(),
        lang=page_language(),
        part=list_templates,
        site_name=requests.shared_config().archive_name or _name_site(),
        home_url=_find_home_url(),
        stylesheet=find_static_url("ibi.css"),
        script=find_static_url("ibi.js"),
        **values,
    )
    response = make_response(html, status)
    set_language(response)
    return make_conditional(set_headers(response))


def _name_site() -> str:
    """Return a name for a site without IBI_ARCHIVE_NAME, such as "Repository".

    The name of the host would tell readers nothing.
    """
    is_resolver = RESOLVER_EXTENSION in current_app.extensions
    return gettext("Resolver of IBI identifiers") if is_resolver else gettext("Repository")


def make_conditional(response: Response) -> Response:
    """Add an entity tag, answer 304 without a body if the client has it, return the response."""
    if response.status_code == 200:
        response.add_etag(weak=True)
        response.make_conditional(request)
    return response


def render_part(template: str, **values: object) -> str:
    """Return a part of a page, for a page of the host.

    :param template: the file name of the template; see :func:`render_page`.
    """
    found = find_environment().select_template(list_templates(template))
    return render_template(found, lang=page_language(), part=list_templates, **values)


def _find_home_url() -> str | None:
    """Return the URL of the home page of the app: "/", or the list of all items.

    :returns: None if the app has neither.
    """
    adapter = current_app.create_url_adapter(request)
    assert adapter is not None
    if RESOLVER_EXTENSION in current_app.extensions or adapter.test("/", "GET"):
        return f"{requests.request_root()}/"
    return find_list_path()


def find_list_path() -> str | None:
    """Return the path of the list of all items; None if the host's catalogue has no list."""
    records = requests.current_archive().items.records
    return find_items_path() if records is None or records.can_list else None


def find_items_path() -> str:
    """Return the path of the list of all items."""
    return f"{requests.request_root()}/ibi/items"


def list_templates(template: str) -> list[str]:
    """Return the full names of a template in the order of their precedence."""
    return [f"{folder}/{template}.html" for folder in TEMPLATE_FOLDERS]


def find_environment() -> Environment:
    """Return the environment of the app's templates.

    If the app has a loader of its own, which does not search the folders of blueprints, the result
    is a second environment. It also finds the templates of the package.
    """
    app = current_app
    found: Environment | None = app.extensions.get(ENVIRONMENT)
    if found is None:
        found = app.jinja_env
        try:
            found.select_template(list_templates("base"))
        except TemplateNotFound:
            loaders = [loader for loader in (found.loader,) if loader is not None]
            loader = ChoiceLoader([*loaders, FileSystemLoader(OWN_TEMPLATES)])
            found = found.overlay(loader=loader)
        app.extensions[ENVIRONMENT] = found
    return found


def find_base_template() -> Template:
    """Return the template that all pages extend: the one named by IBI_BASE_TEMPLATE, or our own."""
    name = requests.shared_config().base_template
    return find_environment().select_template(list_templates("base") if name is None else [name])


def set_headers(response: Response, policy: str | None = None, *, private: bool = True) -> Response:
    """Set the caching headers and the security headers of a response, and return the response.

    :func:`add_policy` adds the Content-Security-Policy header after all functions of the host.

    :param policy: the value of the Content-Security-Policy header; None for the policy of pages.
    :param private: True if shared caches must not store the response, because the response may
        depend on the user.
    """
    response.headers["Cache-Control"] = "private, no-cache" if private else "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    request.environ[POLICY] = (
        requests.shared_config().content_security_policy if policy is None else policy
    )
    return response


def allow_origins(response: Response) -> None:
    """Let programs in browsers read a public response from any site (CORS)."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Expose-Headers"] = "Link, ETag"


def hide_from_search(response: Response) -> Response:
    """Ask search engines not to list a page, and return the response."""
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def add_policy(response: Response) -> Response:
    """Add the Content-Security-Policy header to a response of this package.

    If the host has already set the header of a page, the header stays unchanged. The sandbox of a
    file is added to the header of the host, because a file must not have the rights of a page.
    """
    policy = request.environ.get(POLICY)
    if policy and (policy == SANDBOX_POLICY or POLICY_HEADER not in response.headers):
        response.headers.add(POLICY_HEADER, policy)
    return response


def pairs_response(text: str, status: int = 200, **headers: str) -> Response:
    """Return a response whose body is a list of pairs.

    :param headers: additional headers by name. Each "-" in a name is written as "_".
    """
    response = Response(text, status, content_type="text/plain")
    for name, value in PAIRS_HEADERS:
        response.headers.add(name, value)
    for name, value in headers.items():
        response.headers.add(name.replace("_", "-"), value)
    return response


def health_response(checks: Mapping[str, Callable[[], object]] = MappingProxyType({})) -> Response:
    """Answer the health check of a monitoring program.

    :param checks: a dictionary from the name of each necessary part to a function. The function
        raises NotReady or ConfigError if the part is not ready. The response then has the status
        503, and names the part and the reason.
    """
    not_ready = []
    for name, check in checks.items():
        try:
            check()
        except (NotReady, ConfigError) as error:
            current_app.logger.error("not ready: %s: %s", name, error)
            not_ready.append(f"{name}: {summarise_error(error)}")
    response = jsonify(status="ok")
    if not_ready:
        response = jsonify(status="unavailable", not_ready=not_ready)
        response.status_code = 503
        response.headers["Retry-After"] = RETRY_AFTER
    response.headers["Cache-Control"] = "no-store"
    return response


def error_response(status: int, text: str, **headers: str) -> Response:
    """Return a response whose body is a list with one ``alert`` pair.

    :param text: the value of the pair, which describes the error.
    :param headers: additional headers by name. Each "-" in a name is written as "_".
    """
    return pairs_response(format_pairs([(ALERT, text)]), status, **headers)


def refuse_request() -> Response | None:
    """Refuse a message with a wrong method or with a query that is too long.

    :returns: the response; None if the method and the length of the query are right.
    """
    if request.method not in ("GET", "HEAD"):
        text = f"the method {request.method} is not allowed; use GET or HEAD"
        return error_response(405, text, Allow="GET, HEAD")
    length = len(request.query_string)
    if length > MAX_QUERY:
        return error_response(
            414, f"the query has {length} bytes; a query may have at most {MAX_QUERY} bytes"
        )
    return None


def summarise_error(error: IBIError) -> str:
    """Return the message of an error without the details that only the administrator may see."""
    return error.summary if isinstance(error, NotReady) else str(error)
