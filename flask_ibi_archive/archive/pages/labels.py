"""The names of types, roles, relations and other words of descriptions, for readers.

The names are English messages, which the pages translate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask_ibi_archive.archive.items.item_pages import find_media_type
from flask_ibi_archive.core.records.description import Role, WorkType
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import translatable
from flask_ibi_archive.server.web.texts import gettext

#: The names of types for readers. Other types are shown in the words of the metadata.
TYPES = {
    WorkType.ARTICLE: translatable("Article"),
    WorkType.BACHELOR_THESIS: translatable("Bachelor thesis"),
    WorkType.BOOK: translatable("Book"),
    WorkType.CHAPTER: translatable("Chapter"),
    WorkType.COLLECTION: translatable("Collection"),
    WorkType.CONFERENCE_PAPER: translatable("Conference paper"),
    WorkType.DATASET: translatable("Dataset"),
    WorkType.DOCTORAL_THESIS: translatable("Doctoral thesis"),
    WorkType.IMAGE: translatable("Image"),
    WorkType.LECTURE: translatable("Lecture"),
    WorkType.MAP: translatable("Map"),
    WorkType.MASTER_THESIS: translatable("Master thesis"),
    WorkType.MUSIC: translatable("Music"),
    WorkType.PATENT: translatable("Patent"),
    WorkType.POSTER: translatable("Poster"),
    WorkType.PREPRINT: translatable("Preprint"),
    WorkType.PROCEEDINGS: translatable("Proceedings"),
    WorkType.REPORT: translatable("Report"),
    WorkType.REVIEW: translatable("Review"),
    WorkType.SOFTWARE: translatable("Software"),
    WorkType.SOUND: translatable("Sound"),
    WorkType.STANDARD: translatable("Standard"),
    WorkType.TEXT: translatable("Text"),
    WorkType.THESIS: translatable("Thesis"),
    WorkType.VIDEO: translatable("Video"),
}
ROLES: Mapping[Role, str] = {
    "advisor": translatable("Advisor"),
    "co-advisor": translatable("Co-advisor"),
    "committee member": translatable("Member of the examining committee"),
    "editor": translatable("Editor"),
    "translator": translatable("Translator"),
    "illustrator": translatable("Illustrator"),
    "reviewer": translatable("Reviewer"),
    "contact person": translatable("Contact person"),
    "data collector": translatable("Data collector"),
    "data curator": translatable("Data curator"),
    "data manager": translatable("Data manager"),
    "distributor": translatable("Distributor"),
    "hosting institution": translatable("Hosting institution"),
    "producer": translatable("Producer"),
    "project leader": translatable("Project leader"),
    "project manager": translatable("Project manager"),
    "project member": translatable("Project member"),
    "registration agency": translatable("Registration agency"),
    "registration authority": translatable("Registration authority"),
    "related person": translatable("Related person"),
    "research group": translatable("Research group"),
    "researcher": translatable("Researcher"),
    "rights holder": translatable("Rights holder"),
    "sponsor": translatable("Sponsor"),
    "supervisor": translatable("Supervisor"),
    "work package leader": translatable("Work package leader"),
    "other": translatable("Contributor"),
}
#: The names of the types of files that need words; the other files are named by their extension.
FILE_TYPES = {
    "audio": translatable("Sound"),
    "image": translatable("Image"),
    "video": translatable("Video"),
}
#: Matches the extension at the end of a file name.
_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,8})$")


def name_type(work: Work) -> str:
    """Return the name of the type of a work; "" if no type is stated."""
    if work.type is WorkType.OTHER:
        return work.type_text or ""
    return gettext(TYPES[work.type])


def name_file_type(name: str) -> str:
    """Return the type of a file for readers, such as ``PDF`` or ``Image (PNG)``.

    :param name: the name of the file; the type is that of its extension.
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
