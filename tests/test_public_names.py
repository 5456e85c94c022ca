"""The names that other packages may import."""

from __future__ import annotations

import importlib
import subprocess
import sys

from support.commands import ROOT

import flask_ibi_archive
from flask_ibi_archive import errors, resolver


def test_the_package_exports_the_names_that_hosts_use() -> None:
    assert {"Archive", "IBIArchive", "ItemRecord", "ItemView"} <= set(flask_ibi_archive.__all__)
    for name in flask_ibi_archive.__all__:
        assert getattr(flask_ibi_archive, name).__name__ == name


def test_the_resolver_package_exports_only_its_extension() -> None:
    assert resolver.__all__ == ["IBIResolver"]
    assert repr(resolver.IBIResolver()) == "<IBIResolver>"


def test_importing_the_package_imports_neither_flask_nor_sqlalchemy() -> None:
    code = (
        "import sys, flask_ibi_archive.resolver; "
        "print('flask' in sys.modules, 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_every_name_in_an_all_exists() -> None:
    for path in sorted((ROOT / "flask_ibi_archive").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_every_error_is_an_ibi_error_and_is_in_the_class_tree() -> None:
    ours = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(ours) == 18
    for error in ours:
        assert issubclass(error, errors.IBIError)
        assert error.__name__ in (errors.__doc__ or "")
