"""Settings of Sphinx for this documentation.

``sphinx-build -W docs build/docs`` writes the pages to ``build/docs``, and ``sphinx-build -W -D
language=pt_BR docs build/docs/pt-br`` writes them in Portuguese.
"""

import warnings
from importlib.metadata import version as installed_version

import click
from sphinx.application import Sphinx
from sqlalchemy.exc import SAWarning

# autodoc looks at the columns of a mixin, which belong to no table
warnings.filterwarnings("ignore", "Unmanaged access", SAWarning)

project = "flask_ibi_archive"
author = "The flask_ibi_archive developers"
copyright = author
release = version = installed_version("flask_ibi_archive")

extensions = ["sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]
html_theme = "furo"
html_title = "flask_ibi_archive"
html_copy_source = False
html_show_copyright = False

#: The pages of librarians and administrators: they are also in Portuguese, completely.
TRANSLATED = [
    "index",
    "what-is-an-ibi",
    "why",
    "tutorial",
    "accesses",
    "claims",
    "howto/index",
    "howto/backup",
    "howto/be-harvested",
    "howto/from-a-spreadsheet",
    "howto/join-a-resolver",
    "howto/leave-another-system",
    "howto/lgpd",
    "howto/librarian",
    "howto/login-and-embargo",
    "howto/move",
    "howto/old-links",
    "howto/thesis",
    "howto/troubleshooting",
    "howto/upgrade",
    "reference/commands",
]
locale_dirs = ["locales"]
# one catalogue for each page, without the numbers of lines, which change often
gettext_compact = False
gettext_location = False
if tags.has("translated"):  # noqa: F821
    # sphinx-build -t translated -b gettext writes the texts of these pages alone
    include_patterns = [f"{name}.rst" for name in TRANSLATED]

# the members of a class in the order of its source
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# defaults as they are in the source
autodoc_preserve_defaults = True
# short names in signatures, as in the code
python_use_unqualified_type_names = True
add_module_names = False
# a reference to a name that does not exist is an error, except to classes of other packages and of
# internal modules in annotations, which are not on these pages
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|datetime|fractions|pathlib|flask|sqlalchemy)\..*"),
    ("py:class", r"flask_ibi_archive\.(archive|core|resolver|server)\..*"),
]
# annotations of names that are imported for type checkers only
nitpick_ignore = [
    ("py:class", name)
    for name in (
        "Agents",
        "ArchiveUrls",
        "Clock",
        "Database",
        "Files",
        "Flask",
        "FormatRegistry",
        "HostSession",
        "Identified",
        "Metadata",
        "ResponseReturnValue",
        "Notifier",
        "Path",
        "Reason",
        "ServedArchive",
        "SessionSource",
        "StoreMinted",
        "Unpack",
        "datetime",
        "flask_ibi_archive.signals.Notifier",
        "messages.Agents",
    )
]
# copy the commands of a session without "$" and without their output
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
# commands and settings are no Python
highlight_language = "text"


def show_examples(_app: Sphinx, _context: click.Context, lines: list[str]) -> None:
    """Show lists and examples in the help of a command as they are, with their backslashes."""
    shown: list[str] = []
    for line in lines:
        is_title = line.startswith("| ") and line.endswith(":")
        shown += [f"{line[2:]}:", ""] if is_title else [line.removeprefix("|")]
    lines[:] = shown


def setup(app: Sphinx) -> None:
    """Connect the functions of this file with the events of Sphinx."""
    app.connect("sphinx-click-process-description", show_examples)
