"""What other packages may import."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from support.commands import ROOT

import flask_ibi_archive
from flask_ibi_archive import errors, identifiers, resolver


def test_the_package_gives_the_extension_and_nothing_else() -> None:
    assert flask_ibi_archive.__all__ == ["IBIArchive"]
    from flask_ibi_archive import IBIArchive
    from flask_ibi_archive.extension import IBIArchive as extension

    assert IBIArchive is extension


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'flask_ibi_archive' has no attribute 'IBIResolver'"):
        flask_ibi_archive.IBIResolver  # noqa: B018


def test_the_resolver_has_a_module_of_its_own() -> None:
    assert resolver.__all__ == ["IBIResolver"]
    assert repr(resolver.IBIResolver()) == "<IBIResolver>"


def test_a_star_import_gives_the_extension() -> None:
    names: dict[str, object] = {}
    exec("from flask_ibi_archive import *", names)
    assert "IBIArchive" in names


def test_the_package_alone_is_cheap_to_import() -> None:
    code = (
        "import sys, flask_ibi_archive; print('flask' in sys.modules, 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_identifiers_gives_what_it_names() -> None:
    assert len(set(identifiers.__all__)) == len(identifiers.__all__)
    for name in identifiers.__all__:
        assert hasattr(identifiers, name)
    assert {
        "Decoded",
        "Form",
        "Identifier",
        "build_ibip",
        "build_repository_name",
        "decode_identifier",
        "next_suffix_date",
        "parse_ibip",
        "parse_identifier",
        "parse_repository_name",
        "suggest_identifier",
    } <= set(identifiers.__all__)


def test_every_name_in_an_all_is_there() -> None:
    for path in sorted((ROOT / "flask_ibi_archive").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_every_error_of_ours_is_an_ibi_error_and_stands_in_the_tree_of_errors() -> None:
    ours = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert len(ours) > 10
    for error in ours:
        assert issubclass(error, errors.IBIError)
        assert error.__name__ in (errors.__doc__ or "")


def test_the_package_is_typed() -> None:
    assert (ROOT / "flask_ibi_archive/py.typed").is_file()
