"""The forms of the repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from flask import current_app
from flask_wtf import FlaskForm
from flask_wtf.file import FileAllowed, MultipleFileField
from werkzeug.datastructures import FileStorage
from wtforms import (
    DateField,
    Field,
    IntegerField,
    PasswordField,
    SelectField,
    StringField,
    TextAreaField,
    ValidationError,
)
from wtforms.validators import DataRequired, InputRequired, Length, NumberRange, Optional

from example_app.models import Publication

try:
    from wtforms import SelectChoice
except ImportError:  # WTForms 3.2, the last version for Python 3.10, has tuples instead

    def SelectChoice(value: str, label: object) -> tuple[str, object]:
        """Return a choice of a list."""
        return value, label


KINDS = ["Doctoral thesis", "Master thesis", "Thesis", "Article", "Report", "Dataset"]
LEVELS = [
    SelectChoice("", "(no degree)"),
    SelectChoice("bachelor", "Bachelor"),
    SelectChoice("specialist", "Specialist"),
    SelectChoice("master", "Master"),
    SelectChoice("doctoral", "Doctorate"),
]
LICENCES = [
    SelectChoice("", "(no licence)"),
    *(
        SelectChoice(name, name.replace("-", " "))
        for name in ("CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-ND-4.0", "CC0-1.0")
    ),
]
LANGUAGES = {"en": "English", "es": "Spanish", "fr": "French", "pt": "Portuguese"}
CODES = {name: code for code, name in LANGUAGES.items()}


def strip(value: str | None) -> str | None:
    """Remove white space around a text, and around each of its lines; None if nothing is left."""
    lines = (line.strip() for line in (value or "").splitlines())
    return "\n".join(lines).strip() or None


def join_lines(text: str | None) -> str | None:
    """Return a text without its empty lines; None if nothing is left."""
    return "\n".join(filter(None, (text or "").splitlines())) or None


class LoginForm(FlaskForm):
    """Name and password."""

    name = StringField("User name", [DataRequired()], render_kw={"autocomplete": "username"})
    password = PasswordField(
        "Password", [DataRequired()], render_kw={"autocomplete": "current-password"}
    )


class WithdrawalForm(FlaskForm):
    """The reason of a withdrawal."""

    reason = StringField(
        "Reason",
        [DataRequired(), Length(max=500)],
        [strip],
        description="Everyone can read it on the page that stays in place of the publication.",
    )


def line(label: object, length: int, **options: Any) -> StringField:
    """Return a field for a text in one line, which may be empty."""
    return StringField(label, [Length(max=length)], [strip], **options)


def lines(label: object, length: int, rows: int = 2, **options: Any) -> TextAreaField:
    """Return a field for values in lines, which may be empty."""
    return TextAreaField(label, [Length(max=length)], [strip], render_kw={"rows": rows}, **options)


class PublicationForm(FlaskForm):
    """The description and the files of a publication.

    The fields have the names of the columns of a publication, except ``uploads``.
    """

    #: the fields that are shown under each heading
    SECTIONS = (
        ("Publication", "kind title other_titles authors year language publisher"),
        ("Content", "abstract other_abstracts subjects"),
        ("Thesis", "advisor committee degree level programme institution defended"),
        ("Article or report", "journal volume issue pages issn number"),
        ("Rights and related works", "licence funding related old_links"),
        ("Files", "uploads embargo"),
    )

    kind = SelectField("Kind", choices=KINDS)
    title = StringField("Title", [DataRequired(), Length(max=500)], [strip])
    other_titles = lines(
        "Title in other languages",
        1000,
        description="One per line, with the language in brackets: Sobre a chuva [pt]",
    )
    authors = TextAreaField(
        "Authors",
        [DataRequired(), Length(max=2000)],
        [strip],
        description=(
            "One author per line, the family name first. ORCID, Lattes number and affiliation may "
            "follow after semicolons: Silva, Ana; 0000-0002-1825-0097; Vale University"
        ),
        render_kw={"rows": 3},
    )
    year = IntegerField("Year", [InputRequired(), NumberRange(1800, 2100)])
    # the form shows names, the publication has codes
    language = SelectField(
        "Language", choices=list(CODES), coerce=lambda text: LANGUAGES.get(text, text)
    )
    publisher = line("Publisher", 300)
    abstract = TextAreaField("Abstract", filters=[strip], render_kw={"rows": 6})
    other_abstracts = TextAreaField(
        "Abstract in other languages",
        filters=[strip],
        description="One per line, with the language in brackets at its end.",
        render_kw={"rows": 4},
    )
    subjects = lines(
        "Subjects",
        1000,
        description="One per line. The language may follow in brackets: ice clouds [en]",
    )
    advisor = lines("Advisor", 1000, description="In the form of the authors.")
    committee = lines("Committee", 2000, 3, description="In the form of the authors.")
    degree = line("Degree", 200, description="Such as Doctorate in Remote Sensing.")
    level = SelectField("Level", choices=LEVELS)
    programme = line("Postgraduate programme", 200)
    institution = line("Institution", 300)
    defended = DateField("Date of the defence", [Optional()])
    journal = line("Journal", 300)
    volume = line("Volume", 50)
    issue = line("Issue", 50)
    pages = line("Pages", 50)
    issn = line("ISSN", 20)
    number = line("Number of the report", 50)
    licence = SelectField("Licence", choices=LICENCES)
    funding = lines(
        "Funding",
        2000,
        description="One grant per line: funder; number; title of the project",
    )
    related = lines(
        "Related works",
        2000,
        description=(
            "A DOI or an address on each line. A relation of DataCite may precede it: "
            "IsSupplementedBy doi:10.5555/12345678"
        ),
    )
    old_links = lines(
        "Old links",
        2000,
        description="A DOI, a Handle or a former address of the publication on each line.",
    )
    uploads = MultipleFileField(
        "PDF or CSV files",
        [FileAllowed(["pdf", "csv"], "Choose PDF or CSV files.")],
        render_kw={"accept": ".pdf,.csv,application/pdf,text/csv"},
    )
    embargo = DateField(
        "Embargo",
        [Optional()],
        description="The first day on which everyone may read the files.",
    )

    def __init__(self, *, needs_files: bool, **values: Any) -> None:
        super().__init__(**values)
        self.needs_files = needs_files
        if needs_files:
            self.uploads.flags.required = True
        else:
            self.uploads.description = "Leave it empty to keep the present files."

    def validate_uploads(self, field: MultipleFileField) -> None:
        """Check that all files are PDF files with different names."""
        uploads = self._uploads()
        if self.needs_files and not uploads:
            raise ValidationError("Choose at least one file.")
        if len({file_name(upload) for upload in uploads}) < len(uploads):
            raise ValidationError("Choose files with different names.")
        for upload in uploads:
            beginning = upload.stream.read(5)
            upload.stream.seek(0)
            if file_name(upload).lower().endswith(".pdf") and beginning != b"%PDF-":
                raise ValidationError(f"{file_name(upload)} is not a PDF file.")

    def update(self, publication: Publication) -> None:
        """Copy the values of the form to a publication, and store the uploaded files."""
        for field in self:
            if hasattr(publication, field.name):
                is_lines = isinstance(field, TextAreaField) and field.name != "abstract"
                value = join_lines(field.data) if is_lines else field.data
                setattr(publication, field.name, None if value == "" else value)
        publication.language = CODES[self.language.data]
        if uploads := self._uploads():
            publication.files = {file_name(upload): store_upload(upload) for upload in uploads}

    @property
    def sections(self) -> list[tuple[object, list[Field]]]:
        """The headings of the form, each with its fields."""
        return [(name, [self[one] for one in names.split()]) for name, names in self.SECTIONS]

    def _uploads(self) -> list[FileStorage]:
        # a browser sends an empty file if the user has chosen none
        return [upload for upload in self.uploads.data or () if upload and upload.filename]


def file_name(upload: FileStorage) -> str:
    """Return the name of an uploaded file, without folders."""
    return PurePosixPath((upload.filename or "").replace("\\", "/")).name


def store_upload(upload: FileStorage) -> str:
    """Store an uploaded file in the upload folder, and return its name there."""
    folder = Path(current_app.config["UPLOAD_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid4().hex + PurePosixPath(file_name(upload)).suffix
    upload.save(folder / name)
    return name


def remove_uploads(names: Iterable[str]) -> None:
    """Remove files from the upload folder. The Archive has copies of the files that it needs."""
    for name in names:
        (Path(current_app.config["UPLOAD_FOLDER"]) / name).unlink(missing_ok=True)
