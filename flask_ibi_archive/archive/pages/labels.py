"""The names that readers see for types, roles, relations and other words in descriptions.

The names are English messages, which the pages translate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask_ibi_archive.archive.items.item_pages import find_media_type
from flask_ibi_archive.core.records.description import Role, WorkType
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.web.texts import gettext

#: The names of types for readers. Other types are shown in the words of the metadata.
TYPES = {
    WorkType.ARTICLE: _("Article"),
    WorkType.BACHELOR_THESIS: _("Bachelor thesis"),
    WorkType.BOOK: _("Book"),
    WorkType.CHAPTER: _("Chapter"),
    WorkType.COLLECTION: _("Collection"),
    WorkType.CONFERENCE_PAPER: _("Conference paper"),
    WorkType.DATASET: _("Dataset"),
    WorkType.DOCTORAL_THESIS: _("Doctoral thesis"),
    WorkType.IMAGE: _("Image"),
    WorkType.LECTURE: _("Lecture"),
    WorkType.MAP: _("Map"),
    WorkType.MASTER_THESIS: _("Master thesis"),
    WorkType.MUSIC: _("Music"),
    WorkType.PATENT: _("Patent"),
    WorkType.POSTER: _("Poster"),
    WorkType.PREPRINT: _("Preprint"),
    WorkType.PROCEEDINGS: _("Proceedings"),
    WorkType.REPORT: _("Report"),
    WorkType.REVIEW: _("Review"),
    WorkType.SOFTWARE: _("Software"),
    WorkType.SOUND: _("Sound"),
    WorkType.STANDARD: _("Standard"),
    WorkType.TEXT: _("Text"),
    WorkType.THESIS: _("Thesis"),
    WorkType.VIDEO: _("Video"),
}
ROLES: Mapping[Role, str] = {
    "advisor": _("Advisor"),
    "co-advisor": _("Co-advisor"),
    "committee member": _("Member of the examining committee"),
    "editor": _("Editor"),
    "translator": _("Translator"),
    "illustrator": _("Illustrator"),
    "reviewer": _("Reviewer"),
    "contact person": _("Contact person"),
    "data collector": _("Data collector"),
    "data curator": _("Data curator"),
    "data manager": _("Data manager"),
    "distributor": _("Distributor"),
    "hosting institution": _("Hosting institution"),
    "producer": _("Producer"),
    "project leader": _("Project leader"),
    "project manager": _("Project manager"),
    "project member": _("Project member"),
    "registration agency": _("Registration agency"),
    "registration authority": _("Registration authority"),
    "related person": _("Related person"),
    "research group": _("Research group"),
    "researcher": _("Researcher"),
    "rights holder": _("Rights holder"),
    "sponsor": _("Sponsor"),
    "supervisor": _("Supervisor"),
    "work package leader": _("Work package leader"),
    "other": _("Contributor"),
}
#: The names of the types of files that need words; the other files are named by their extension.
FILE_TYPES = {
    "audio": _("Sound"),
    "image": _("Image"),
    "video": _("Video"),
}
#: Matches the extension at the end of a file name.
_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,8})$")


def name_type(work: Work) -> str:
    """Return the name of the type of a work; "" if no type is stated."""
    if work.type is WorkType.OTHER:
        return work.type_text or ""
    return gettext(TYPES[work.type])


def name_file_type(name: str) -> str:
    """Return the type of a file as readers see it, such as ``PDF`` or ``Image (PNG)``.

    :param name: the name of the file, whose extension tells the type.
    """
    media_type = find_media_type(name)
    if media_type == "text/plain":
        return gettext("Text")
    family = FILE_TYPES.get(media_type.partition("/")[0])
    found = _EXTENSION.search(name)
    if found is None:
        return gettext("File")
    extension = found[1].upper()
    return f"{gettext(family)} ({extension})" if family else extension
