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
    IntegerField,
    PasswordField,
    SelectField,
    StringField,
    TextAreaField,
    ValidationError,
)
from wtforms.i18n import get_translations
from wtforms.validators import DataRequired, InputRequired, Length, NumberRange, Optional

from example_app.languages import get_language, name_language
from example_app.languages import gettext as _
from example_app.languages import lazy_gettext as _l
from example_app.models import Publication

try:
    from wtforms import SelectChoice
except ImportError:  # WTForms 3.2, the last version for Python 3.10, has tuples instead

    def SelectChoice(value: str, label: object) -> tuple[str, object]:
        """Return a choice of a list."""
        return value, label


KINDS = [SelectChoice("Thesis", _l("Thesis")), SelectChoice("Report", _l("Report"))]
LANGUAGES = {"en": "English", "es": "Spanish", "fr": "French", "pt": "Portuguese"}
CODES = {name: code for code, name in LANGUAGES.items()}


def strip(value: str | None) -> str | None:
    """Remove white space around a text, and around each of its lines; None if nothing is left."""
    lines = (line.strip() for line in (value or "").splitlines())
    return "\n".join(lines).strip() or None


def join_lines(text: str | None) -> str:
    """Return a text without its empty lines."""
    return "\n".join(filter(None, (text or "").splitlines()))


class TranslatedForm(FlaskForm):
    """A form whose messages about wrong values are in the language of the page."""

    class Meta(FlaskForm.Meta):
        """The translations are those of WTForms."""

        def get_translations(self, form: Any) -> Any:
            """Return the translations into the language of the page."""
            return get_translations([get_language()])


class LoginForm(TranslatedForm):
    """Name and password."""

    name = StringField(_l("User name"), [DataRequired()], render_kw={"autocomplete": "username"})
    password = PasswordField(
        _l("Password"), [DataRequired()], render_kw={"autocomplete": "current-password"}
    )


class WithdrawalForm(TranslatedForm):
    """The reason of a withdrawal."""

    reason = StringField(
        _l("Reason"),
        [DataRequired(), Length(max=500)],
        [strip],
        description=_l("Everyone can read it on the page that stays in place of the publication."),
    )


class PublicationForm(TranslatedForm):
    """The description and the files of a publication."""

    title = StringField(_l("Title"), [DataRequired(), Length(max=500)], [strip])
    authors = TextAreaField(
        _l("Authors"),
        [DataRequired(), Length(max=2000)],
        [strip],
        description=_l("One author per line, the family name first: Silva, Ana"),
        render_kw={"rows": 3},
    )
    kind = SelectField(_l("Kind"), choices=KINDS)
    advisor = StringField(
        _l("Advisor"),
        [Length(max=200)],
        [strip],
        description=_l("Of a thesis."),
    )
    year = IntegerField(_l("Year"), [InputRequired(), NumberRange(1800, 2100)])
    # the form shows names, the publication has codes
    language = SelectField(_l("Language"), coerce=lambda text: LANGUAGES.get(text, text))
    abstract = TextAreaField(_l("Abstract"), filters=[strip], render_kw={"rows": 6})
    uploads = MultipleFileField(
        _l("PDF files"),
        [FileAllowed(["pdf"], _l("Choose PDF files."))],
        render_kw={"accept": ".pdf,application/pdf"},
    )
    embargo = DateField(
        _l("Embargo"),
        [Optional()],
        description=_l("The first day on which everyone may read the files."),
    )
    old_links = TextAreaField(
        _l("Old links"),
        [Length(max=2000)],
        [strip],
        description=_l("A DOI, a Handle or a former address of the publication on each line."),
        render_kw={"rows": 2},
    )

    def __init__(self, *, needs_files: bool, **values: Any) -> None:
        super().__init__(**values)
        self.language.choices = [
            SelectChoice(name, name_language(code)) for name, code in CODES.items()
        ]
        self.needs_files = needs_files
        if needs_files:
            self.uploads.flags.required = True
        else:
            self.uploads.description = _("Leave it empty to keep the present files.")

    def validate_uploads(self, field: MultipleFileField) -> None:
        """Check that all files are PDF files with different names."""
        uploads = self._uploads()
        if self.needs_files and not uploads:
            raise ValidationError(_("Choose at least one file."))
        if len({file_name(upload) for upload in uploads}) < len(uploads):
            raise ValidationError(_("Choose files with different names."))
        for upload in uploads:
            beginning = upload.stream.read(5)
            upload.stream.seek(0)
            if beginning != b"%PDF-":
                raise ValidationError(_("{file} is not a PDF file.", file=file_name(upload)))

    def update(self, publication: Publication) -> None:
        """Copy the values of the form to a publication, and store the uploaded files."""
        for name in ("title", "kind", "advisor", "year", "abstract", "embargo"):
            setattr(publication, name, self[name].data)
        publication.language = CODES[self.language.data]
        publication.authors = join_lines(self.authors.data)
        publication.old_links = join_lines(self.old_links.data) or None
        if uploads := self._uploads():
            publication.files = {file_name(upload): store_upload(upload) for upload in uploads}

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
    name = f"{uuid4().hex}.pdf"
    upload.save(folder / name)
    return name


def remove_uploads(names: Iterable[str]) -> None:
    """Remove files from the upload folder. The Archive has copies of the files that it needs."""
    for name in names:
        (Path(current_app.config["UPLOAD_FOLDER"]) / name).unlink(missing_ok=True)
