"""The default tests on each supported Python, and on the limits of the versions of libraries.

``nox`` tests on each supported Python that is installed, ``nox -s lowest`` with the lowest versions
that setup.cfg allows, and ``nox -s prereleases`` with the newest versions, released or not.
``nox -s hosts`` embeds the package in applications that others wrote, each in an environment of its
own. ``nox -s release`` builds the distributions and checks them. ``.ci/full`` executes the sessions
of the highest Python, ``lowest``, ``hosts`` and ``release``.
"""

import json
import shutil
from pathlib import Path

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
#: A folder for each host, with the versions of its packages that the tests passed with.
HOSTS = Path("tests/installed_hosts")

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False


def run_tests(session: nox.Session, *options: str, success_codes: tuple[int, ...] = (0,)) -> object:
    """Install with options of uv, and run the default tests, or those that follow ``--``."""
    # as pip does: to compile a module of others during the tests may warn, which is an error there
    session.install(*options, "--compile-bytecode", "-e", ".[test]")
    arguments = session.posargs or ["-n", "auto"]
    return session.run("python", "-m", "pytest", *arguments, success_codes=success_codes)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Test with the newest releases."""
    run_tests(session)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Test with the lowest versions that setup.cfg allows."""
    run_tests(session, "--resolution=lowest-direct")


@nox.session(python=PYTHONS[-1])
def prereleases(session: nox.Session) -> None:
    """Test with the newest versions, released or not; failures are reported and allowed."""
    run_tests(session, "--prerelease=allow", success_codes=(0, 1))


@nox.session
@nox.parametrize("host", sorted(path.parent.name for path in HOSTS.glob("*/requirements.txt")))
def hosts(session: nox.Session, host: str) -> None:
    """Embed the package in a host as its page in docs/hosts.rst says, and test the host with it."""
    versions = f"{HOSTS / host}/requirements.txt"
    # compiled once, because the tests start the programs of a host many times
    installed = ["-r", versions, "-e", ".[postgresql,resolver]", "pytest", "pytest-playwright"]
    session.install("--compile-bytecode", *installed)
    session.run("python", "-m", "pytest", *(session.posargs or [f"{HOSTS / host}"]))


@nox.session
def release(session: nox.Session) -> None:
    """Build the distributions in the folder dist, and check them and their public types."""
    checkers = ["check-manifest", "check-wheel-contents", "pyroma", "twine"]
    session.install("build", "cffconvert", "pyright", *checkers)
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build")
    wheel, sdist = (str(next(Path("dist").glob(pattern))) for pattern in ("*.whl", "*.tar.gz"))
    session.run("twine", "check", "--strict", wheel, sdist)
    session.run("check-wheel-contents", wheel)
    session.run("check-manifest")
    # the project has no page and no address yet (CONTRIBUTING.rst)
    session.run("pyroma", "--min", "10", "--skip-tests", "AuthorEmail,Url", ".")
    session.run("cffconvert", "--validate")
    session.install(wheel)
    with session.chdir(session.create_tmp()):  # pyright shall read the installed package
        verify = ("pyright", "--verifytypes", "flask_ibi_archive", "--ignoreexternal")
        report = session.run(*verify, "--outputjson", silent=True, success_codes=(0, 1))
    score = json.loads(str(report))["typeCompleteness"]["completenessScore"]
    session.log(f"types: {score:.2%}")
    if score < 0.99:
        session.error(f"less than 99 % of the public types are known; see {' '.join(verify)}")
