"""The departmental app after it has embedded an Archive: what "Your app has ..." says is true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import flask
import pytest
import responses
from celery import Celery, Task
from celery.contrib.testing.worker import start_worker
from flask import Flask
from flask_login import current_user
from flask_wtf import CSRFProtect
from sqlalchemy import inspect, select
from support.archives import archive_of
from support.documentation import blocks, read
from support.web import SERVICE_PATH, Answer, ask, query_of
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.commands import ibi as commands
from flask_ibi_archive.archive.hosts import model_checks

pytestmark = [
    pytest.mark.filterwarnings("ignore:'get_engine' is deprecated:DeprecationWarning"),
]
HERE = Path(__file__).parent
HOST = "repository.example.org"
BROWSER = {"Accept": "text/html"}
PAGE = read("howto/your-app-has.rst")
#: What the page says that the command check prints, with a pattern for the identifier.
QUOTES = [
    re.escape(line.strip()).replace(re.escape("8JMKD3MGP8W/4GR7C9G"), r"\w+/\w+")
    for line in re.findall(r"^    (?:ok  |FAIL) .*$", PAGE, re.MULTILINE)
]


#: Whether the Archive is the last or the first extension after the database.
in_both_orders = pytest.mark.parametrize("mode", ["embedded", "early"])


@pytest.fixture
def mode() -> str:
    """The app embeds an Archive."""
    return "embedded"


@pytest.fixture
def new_app(department: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Flask]:
    """Return a new app of the department, with a thesis in its database."""
    # other tests have models of a table with the same name
    models = {inspect(department.module.Thesis)}
    monkeypatch.setattr(model_checks, "identified_models", models)

    def create(**config: Any) -> Flask:
        app: Flask = department.create(**config)
        models = department.module
        with app.app_context():
            if models.db.session.scalar(select(models.Thesis)) is None:
                pdf = department.folder / "rain.pdf"
                pdf.write_bytes(b"%PDF rain")
                row = models.Thesis(title="On rain", author="Silva, Ana", year=2026, pdf=str(pdf))
                models.db.session.add(row)
                models.db.session.commit()
        return app

    return create


@pytest.fixture
def network() -> Iterator[responses.RequestsMock]:
    """The resolver, and the address of the app."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(re.compile("http://"), body="confirmation yes")
        yield mock


def run_block(word: str, **names: Any) -> dict[str, Any]:
    """Run the code block of the page that contains a word, and return its names."""
    [text] = [block.text for block in blocks("howto/your-app-has.rst") if word in block.text]
    exec(text, names)
    return names


def check(app: Flask) -> list[str]:
    """Return the lines of the command check."""
    return app.test_cli_runner().invoke(commands, ["check"]).output.splitlines()


def find_thesis(app: Flask, department: Any) -> Any:
    """Return the identifier of the thesis."""
    with app.app_context():
        return department.module.db.session.scalar(select(department.module.Thesis)).ibi


def ask_resolver(app: Flask, ibi: str) -> Answer:
    """Send the question of a resolver."""
    question = [("servicesubject", "urlRequest"), ("clientinformation.ipaddress", "192.0.2.1")]
    return ask(app, f"{SERVICE_PATH}?{query_of(*question, ('parsedibiurl.ibi', ibi))}")


def see(app: Flask, path: str, **headers: str) -> str:
    """Return the text of a page."""
    answer = app.test_client().get(path, headers=headers)
    assert answer.status_code == 200
    return answer.text


def test_eighteen_lines_embed_an_archive() -> None:
    diff = (HERE / "embedding.diff").read_text(encoding="utf-8").splitlines()
    added = [line for line in diff if line[:1] == "+" and line[:3] != "+++" and line != "+"]
    assert len(added) <= 18


# --- what the check command says -----------------------------------------------------------------


def protect_forms(new_app: Callable[..., Flask], department: Any) -> Flask:
    app = new_app()
    CSRFProtect(app)  # without the exemption
    return app


def limit_requests(new_app: Callable[..., Flask], department: Any) -> Flask:
    app = new_app(LIMIT="1 per hour")
    app.test_client().get("/ibi/statistics")
    return app


def redirect_to_https(new_app: Callable[..., Flask], department: Any) -> Flask:
    return new_app(FORCE_HTTPS=True)


def redirect_to_itself(new_app: Callable[..., Flask], department: Any) -> Flask:
    """Return an app behind a web server that does not say which requests have https."""
    return new_app(FORCE_HTTPS=True, PREFERRED_URL_SCHEME="https")


def require_login(new_app: Callable[..., Flask], department: Any) -> Flask:
    return new_app(INTRANET=True)


def take_two_words(new_app: Callable[..., Flask], department: Any) -> Flask:
    app = new_app()
    app.add_url_rule("/<owner>/<name>", "taken", lambda owner, name: "taken")
    return app


def leave_out_routes(new_app: Callable[..., Flask], department: Any) -> Flask:
    """Return a second app with the same models and without routes of the Archive."""
    app = Flask("api")
    app.config.update(new_app().config)
    department.module.db.init_app(app)
    IBIArchive(app, session=department.module.db.session, routes=False)
    department.made.append(app)
    return app


def forward(app: Flask, network: responses.RequestsMock, **headers: str) -> None:
    """Pass requests for https on to the app, as a web server in front of it does."""

    def pass_on(request: Any) -> tuple[int, dict[str, str], bytes]:
        path = request.url.partition(HOST)[2]
        answer = app.test_client().get(path, base_url=f"http://{HOST}", headers=headers)
        return answer.status_code, dict(answer.headers), answer.data

    network.add_callback(responses.GET, re.compile("https://"), pass_on)


SCENES = [
    protect_forms,
    limit_requests,
    redirect_to_https,
    redirect_to_itself,
    require_login,
    take_two_words,
    leave_out_routes,
    leave_out_routes,
]


@pytest.mark.parametrize(("number", "scene"), list(enumerate(SCENES)))
def test_the_check_command_says_what_the_page_quotes(
    new_app: Callable[..., Flask],
    department: Any,
    network: responses.RequestsMock,
    number: int,
    scene: Callable[..., Flask],
) -> None:
    assert len(QUOTES) == len(SCENES)
    app = scene(new_app, department)
    forward(app, network)
    assert [line for line in check(app) if re.fullmatch(QUOTES[number], line)]


@in_both_orders
def test_the_check_command_says_nothing_of_this_about_the_app(
    new_app: Callable[..., Flask], network: responses.RequestsMock
) -> None:
    app = new_app(FORCE_HTTPS=True, PREFERRED_URL_SCHEME="https")
    forward(app, network, **{"X-Forwarded-Proto": "https"})
    lines = check(app)
    assert [line[:4] for line in lines] == ["ok  "] * len(lines)
    assert not [line for line in lines for quote in QUOTES if re.fullmatch(quote, line)]


# --- hooks and routes of the app -----------------------------------------------------------------


@in_both_orders
@pytest.mark.parametrize(
    "config",
    [{"INTRANET": True}, {"FORCE_HTTPS": True}, {"LIMIT": "1 per hour"}],
    ids=["login", "https", "limits"],
)
def test_resolvers_are_answered_whatever_hooks_the_app_has(
    new_app: Callable[..., Flask], department: Any, config: dict[str, Any]
) -> None:
    app = new_app(**config)
    ibi = find_thesis(app, department)
    for _ in range(50):
        [url] = ask_resolver(app, ibi).pairs["url"]
        assert urlsplit(url).netloc == HOST
    for _ in range(3):
        answer = ask(app, f"/{ibi}", headers=BROWSER)
        assert (answer.status, answer.headers["Location"]) == (302, url)
    assert ask(app, SERVICE_PATH, "POST").status == 405


def test_the_lines_of_the_page_let_pages_pass(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app(LIMIT="1 per hour")
    [exemption] = re.findall(r"``(limiter\.exempt\(.*?\))``", PAGE)
    eval(exemption, {"app": app, "limiter": department.module.limiter})
    run_block("csrf.exempt", app=app, csrf=CSRFProtect(app))
    names = {name: getattr(flask, name) for name in ("request", "redirect", "url_for")}
    run_block("require_login", app=app, current_user=current_user, **names)
    app.add_url_rule("/members", "login", lambda: "log in")
    assert app.test_client().post("/ibi/oai", data={"verb": "Identify"}).status_code == 200
    for _ in range(3):
        see(app, "/ibi/statistics")
    assert app.test_client().get("/").location == "/members"


@in_both_orders
def test_other_paths_reach_the_route_for_all_paths(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app()
    models = department.module
    with app.app_context():
        models.db.session.add(models.Page(path="about/us", text="About us"))
        models.db.session.commit()
    assert "About us" in see(app, "/about/us")
    assert ask(app, f"/{find_thesis(app, department)}").status == 302


def test_a_view_may_answer_persistent_urls_itself(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app()
    show = {"show_page": lambda owner, name: f"page {owner} {name}"}
    run_block("answer_persistent_url", app=app, ibi=department.module.ibi, **show)
    assert see(app, "/some/page") == "page some page"
    assert ask(app, f"/{find_thesis(app, department)}").status == 302


# --- pages of the Archive in the app -------------------------------------------------------------


def test_pages_are_in_the_layout_and_have_the_policy_of_the_app(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app()
    answer = app.test_client().get(f"/col/{find_thesis(app, department)}/", headers=BROWSER)
    assert "Theses of the department" in answer.text
    assert "<h1>On rain</h1>" in answer.text
    assert answer.headers.getlist("Content-Security-Policy") == [
        "default-src 'self'; object-src 'none'"
    ]
    for address in re.findall(r'(?:src|href)="(/ibi/static[^"]+)"', answer.text):
        assert app.test_client().get(address).status_code == 200
    assert not re.findall(r"<style|style=|<script(?![^>]*(?:src=|application/ld))", answer.text)


def test_files_are_sent_with_their_own_policy_too(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app()
    with app.app_context():
        files = [("page.html", BytesIO(b"<p>Rain</p>"))]
        item = archive_of(app).without_session().deposit(title="Page", files=files)
    answer = ask(app, f"/col/{item.ibi}/doc/page.html")
    assert answer.body == b"<p>Rain</p>"
    policies = answer.headers.getlist("Content-Security-Policy")
    assert [policy.split()[0] for policy in policies] == ["default-src", "sandbox"]


@in_both_orders
@pytest.mark.parametrize("template", [None, "<p>{{ _('Files') }} {{ _('Send') }}</p>"])
def test_pages_are_in_the_language_of_the_session(
    new_app: Callable[..., Flask], department: Any, template: str | None
) -> None:
    """A template with which the app replaces ours has the translations of the app."""
    app = new_app()
    path = Path(app.root_path) / "templates/ibi_archive/landing.html"
    client, english = app.test_client(), {"Accept-Language": "en"}
    client.get("/language/pt", headers=english)
    if template is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(template)
    try:
        answer = client.get(f"/col/{find_thesis(app, department)}/", headers=english)
    finally:
        path.unlink(missing_ok=True)
    assert answer.headers["Content-Language"] == "pt"
    if template is None:
        assert "Arquivos" in answer.text
        assert "Documentos da tese" not in answer.text
    else:
        assert answer.text == "<p>Documentos da tese Enviar</p>"


def test_the_page_of_the_app_shows_the_persistent_url(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app()
    assert f"<p>http://urlib.net/{find_thesis(app, department)}</p>" in see(app, "/theses/1")


# --- rows ----------------------------------------------------------------------------------------


def test_rows_of_all_parts_of_the_app_have_items(
    new_app: Callable[..., Flask], department: Any, tmp_path: Path
) -> None:
    app = new_app(WTF_CSRF_ENABLED=False, LOGIN_DISABLED=True)
    client, values = app.test_client(), {"author": "Silva, Ana", "year": "2026"}
    department.module.ThesisView.is_accessible = lambda view: True  # type: ignore[method-assign]
    form = {"title": "Form", "pdf": (BytesIO(b"%PDF form"), "form.pdf")}
    assert client.post("/theses/new", data=values | form).status_code == 302
    client.post("/admin/theses/new/", data=values | {"title": "Admin"})
    headers = {"X-Token": "an API token"}
    client.post("/api/theses", json=values | {"title": "API"}, headers=headers)
    file = tmp_path / "theses.json"
    file.write_text('[{"title": "Command", "author": "Silva, Ana"}]')
    app.test_cli_runner().invoke(args=["theses", "import", str(file)])
    titles = ["On rain", "Form", "Admin", "API", "Command"]
    assert sorted(item.title for item in archive_of(app).find()) == sorted(titles)
    assert client.post("/theses/2/delete").status_code == 302
    with app.app_context():
        [deleted] = archive_of(app).find(state="Deleted")
    answer = client.get(f"/col/{deleted.ibi}/", headers=BROWSER)
    assert (answer.status_code, "removed by the repository" in answer.text) == (410, True)


def test_forms_of_the_administration_hide_identifiers(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app, module = new_app(), department.module
    hiding = run_block("ThesisView", ModelView=module.ModelView)["ThesisView"]
    with app.test_request_context():
        for view_class in (module.ModelView, hiding):
            view = view_class(module.Thesis, module.db, name=view_class.__name__)
            fields = set(view.get_create_form()()._fields)
            assert bool(fields & {"ibi_rep", "ibi_ibip"}) is (view_class is module.ModelView)


def test_a_proxy_fix_tells_the_address_of_the_user(
    new_app: Callable[..., Flask], department: Any
) -> None:
    app = new_app()
    with app.app_context():
        item = (
            archive_of(app)
            .without_session()
            .deposit(
                title="Inside",
                files=[("a.txt", BytesIO(b"a"))],
                access={"networks": ["198.51.100.0/24"]},
            )
        )
    path, headers = f"/col/{item.ibi}/doc/a.txt", {"X-Forwarded-For": "198.51.100.7"}
    assert ask(app, path, headers=headers).status == 403
    run_block("ProxyFix", app=app, ProxyFix=ProxyFix)
    assert ask(app, path, headers=headers).status == 200


# --- tasks and other apps ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "is_eager", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["eager", "worker"]
)
def test_a_task_deposits_rows(
    new_app: Callable[..., Flask], department: Any, is_eager: bool
) -> None:
    app, module = new_app(), department.module

    app.config["BROKER"] = "memory://"
    celery = run_block("FlaskTask", app=app, Celery=Celery, Task=Task)["celery"]
    celery.conf.update(
        task_always_eager=is_eager,
        result_backend="cache+memory://",
        broker_transport_options={"polling_interval": 0.05},
    )

    @celery.task(shared=False)  # type: ignore[untyped-decorator]
    def add(title: str) -> str:
        row = module.Thesis(title=title, author="Silva, Ana")
        module.db.session.add(row)
        module.db.session.commit()
        return str(row.ibi)

    if is_eager:
        ibi = add.delay("Task").get()
    else:
        with start_worker(celery, pool="solo", perform_ping_check=False, loglevel="error"):
            ibi = add.delay("Task").get(timeout=300)
    with app.app_context():
        item = archive_of(app).get(ibi)
    assert item is not None
    assert item.title == "Task"


def test_an_app_without_routes_changes_rows_that_another_app_shows(
    new_app: Callable[..., Flask], department: Any
) -> None:
    pages, module = new_app(), department.module
    worker = leave_out_routes(new_app, department)
    with worker.app_context():
        row = module.db.session.scalar(select(module.Thesis))
        row.title = "On snow"
        module.db.session.commit()
        url = row.persistent_url
    assert "On snow" in see(pages, f"/col/{urlsplit(url).path[1:]}/", **BROWSER)
    namespace = {"app": worker, "db": module.db, "Thesis": module.Thesis}
    run_block("/api/theses/<int:number>", **namespace)
    assert ask(worker, "/api/theses/1").text == f'{{"title":"On snow","url":"{url}"}}\n'
    assert ask(worker, SERVICE_PATH).status == 404
