"""The fields of the form that edits an item: their names, their labels and their hints.

The name of a field is its place in the JSON of the description, such as ``degree.name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.core.records.record import ELEMENTS
from flask_ibi_archive.reasons import translatable

#: How a field is written: in a line; in lines, one for each member of a list; in texts of several
#: lines, each with its language; or by a choice.
Control = Literal["line", "lines", "texts", "choice"]

_ONE_PER_LINE = translatable("One per line. A language may follow in brackets: [pt]")
_NAMES = translatable(
    "One name per line. After semicolons: ORCID, number of the Lattes curriculum, affiliation "
    "with its ROR address."
)


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the form.

    :param name: the place of the value in the JSON of the description.
    :param label: the English label, which is translated when the form is shown.
    :param hint: the English text that says how to write the value; "" for none.
    :param choices: for a choice: the English names of the values, by value.
    :param role: the role of the contributors that the field contains; "" for the other roles.
    """

    name: str
    label: str
    control: Control = "line"
    hint: str = ""
    choices: Mapping[Any, str] | None = None
    role: str | None = None
    is_required: bool = False


#: The sections of the form with the fields of a description.
WORK_SECTIONS: Mapping[str, tuple[FormField, ...]] = {
    translatable("Work"): (
        FormField(
            "titles",
            translatable("Titles"),
            "lines",
            translatable("The first line is the title. A language may follow in brackets: [pt]"),
            is_required=True,
        ),
        FormField(
            "type",
            translatable("Type"),
            "choice",
            choices={type.value: name for type, name in labels.TYPES.items()},
        ),
        FormField(
            "issued",
            translatable("Date of publication"),
            hint=translatable("A year, a month or a day: 2025, 2025-03 or 2025-03-14"),
        ),
        FormField(
            "dates",
            translatable("Other dates"),
            "lines",
            translatable("One per line, such as accepted: 2025-03-14"),
        ),
        FormField("publisher", translatable("Publisher")),
        FormField("extent", translatable("Extent"), hint=translatable("Such as 171 p.")),
        FormField("version", translatable("Version or edition")),
        FormField("number", translatable("Number of the report or patent")),
        FormField("isbn", "ISBN"),
        FormField("issn", "ISSN"),
    ),
    translatable("People and organisations"): (
        FormField("creators", translatable("Authors"), "lines", _NAMES),
        FormField("contributors.advisor", translatable("Advisors"), "lines", role="advisor"),
        FormField(
            "contributors.co-advisor", translatable("Co-advisors"), "lines", role="co-advisor"
        ),
        FormField(
            "contributors.committee",
            translatable("Committee members"),
            "lines",
            role="committee member",
        ),
        FormField(
            "contributors",
            translatable("Other contributors"),
            "lines",
            translatable("One per line, with the role before the name, such as editor: Silva, Ana"),
            role="",
        ),
    ),
    translatable("Degree"): (
        FormField("degree.name", translatable("Degree")),
        FormField("degree.level", translatable("Level"), "choice", choices=labels.LEVELS),
        FormField("degree.programme", translatable("Postgraduate programme")),
        FormField(
            "degree.institution",
            translatable("Institution"),
            hint=translatable("Its ROR address may follow the name."),
        ),
        FormField("degree.defended", translatable("Date of the defence")),
    ),
    translatable("Journal, book or event"): (
        FormField("container.title", translatable("Title of the journal, book or event")),
        FormField("container.place", translatable("Place")),
        FormField("container.volume", translatable("Volume")),
        FormField("container.number", translatable("Issue")),
        FormField("container.pages", translatable("Pages")),
    ),
    translatable("Content"): (
        FormField("abstracts", translatable("Abstract"), "texts"),
        FormField("subjects", translatable("Subjects"), "lines", _ONE_PER_LINE),
        FormField("coverage", translatable("Places and periods"), "lines", _ONE_PER_LINE),
        FormField("notes", translatable("Notes"), "texts"),
    ),
    translatable("Rights and related works"): (
        FormField(
            "licence",
            translatable("Licence"),
            hint=translatable("An SPDX identifier such as CC-BY-4.0, or an address."),
        ),
        FormField("access_right", translatable("Access"), "choice", choices=labels.ACCESS),
        FormField("rights", translatable("Rights"), "texts"),
        FormField(
            "funding",
            translatable("Funding"),
            "lines",
            translatable(
                "One grant per line: funder; number; title of the project; address of the funder "
                "in ROR"
            ),
        ),
        FormField(
            "related",
            translatable("Related works"),
            "lines",
            translatable(
                "One per line: a DOI, an address or another identifier. A relation may precede it, "
                "such as IsSupplementedBy."
            ),
        ),
    ),
}
#: The names of the elements of Dublin Core.
ELEMENT_NAMES = {
    "contributor": translatable("Contributor"),
    "coverage": translatable("Coverage"),
    "creator": translatable("Creator"),
    "date": translatable("Date"),
    "description": translatable("Description"),
    "format": translatable("Format"),
    "identifier": translatable("Identifier"),
    "language": translatable("Language"),
    "publisher": translatable("Publisher"),
    "relation": translatable("Relation"),
    "rights": translatable("Rights"),
    "source": translatable("Source"),
    "subject": translatable("Subject"),
    "title": translatable("Title"),
    "type": translatable("Type"),
}
#: The section with the elements of Dublin Core, for items that a description would not state
#: completely.
DUBLIN_CORE_SECTIONS: Mapping[str, tuple[FormField, ...]] = {
    "Dublin Core": tuple(
        FormField(
            name,
            ELEMENT_NAMES[name],
            "texts" if name == "description" else "lines",
            "" if name == "description" else _ONE_PER_LINE,
        )
        for name in ELEMENTS
    )
}
#: The section with fields of the record that do not belong to the description.
ITEM_SECTION: Mapping[str, tuple[FormField, ...]] = {
    translatable("Item"): (
        FormField(
            "item.language",
            translatable("Language"),
            hint=translatable("The language of the item, such as pt or pt-BR"),
        ),
        FormField(
            "item.embargo",
            translatable("Embargo"),
            hint=translatable("The first day on which everyone may read the files: 2027-03-01"),
        ),
        FormField(
            "item.same_as",
            translatable("Old links"),
            "lines",
            translatable("A DOI, a Handle or a former address of the item on each line."),
        ),
    ),
}
