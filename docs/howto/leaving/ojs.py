"""Convert an OJS export (native XML of issues or articles, OJS 3.2 or later) to the import format.

python3 ojs.py http://journal.example.org/index.php/rain issues.xml
"""

import re
import sys
from base64 import b64decode
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from leaving import access, language, text, write

PUBLISHED, SUBSCRIPTION, OPEN = "3", "2", "1"
#: Elements of Dublin Core, and the paths of their values in a publication.
FIELDS = {
    "title": ["title"],
    "description": ["abstract"],
    "subject": ["keywords/keyword", "subjects/subject"],
    "rights": ["copyrightHolder", "licenseUrl"],
}


def main(old, *exports):
    """Convert the articles of several files; ``old`` is the address of the journal."""
    write((record for path in exports for record in read(old, path)), "ojs")


def read(old, path):
    """Yield the record of each published article, in its current version."""
    root = ElementTree.parse(path).getroot()
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    issue_of = {article: issue for issue in root.iter("issue") for article in issue.iter("article")}
    for article in root.iter("article"):
        current = article.get("current_publication_id")
        for publication in article.iterfind("publication"):
            if publication.get("status") == PUBLISHED and internal_id(publication) == current:
                yield convert(old, article, publication, issue_of.get(article, publication))


def internal_id(element):
    """Return the number of an element in OJS."""
    return element.findtext("id[@type='internal']")


def plain(element):
    """Return the text of an element without the HTML that it may contain."""
    return unescape(re.sub("<[^>]+>", "", element.findtext("name") or element.text or ""))


def convert(old, article, publication, issue):
    """Return the record of an article, and store its files in the folder files."""
    number, locales = internal_id(article), {}
    for element in publication.iter():  # a keyword has the locale of the element around it
        locales |= {one: one.get("locale") or element.get("locale") for one in element}
    dc = {}
    for element, paths in FIELDS.items():
        found = [one for path in paths for one in publication.iterfind(path) if plain(one)]
        dc |= {element: [text(plain(one), locales[one]) for one in found]} if found else {}
    authors = publication.iterfind("authors/author")
    names = [[one.findtext("familyname"), one.findtext("givenname")] for one in authors]
    dc |= {"creator": [", ".join(filter(None, name)) for name in names]} if names else {}
    dc["date"] = [publication.get("date_published")]
    where = issue.iterfind("issue_identification/*")
    dc["source"] = [", ".join(f"{one.tag} {one.text}" for one in where if one.tag != "title")]
    same_as = [f"{old}/article/view/{number}"]
    same_as += [f"doi:{doi.text}" for doi in publication.iterfind("id[@type='doi']")]
    if path := publication.get("url_path"):
        same_as.append(f"{old}/article/view/{path}")
    sources = {one.get("id"): one for one in article.iterfind("submission_file")}
    files, paths = [], {}
    for galley in publication.iterfind("article_galley"):
        for reference in galley.iterfind("submission_file_ref"):
            file = sources[reference.get("id")]
            path = f"{internal_id(galley)}/{file.findtext('name').replace('/', '_')}"
            source = Path("files", "ojs", number, path)
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_bytes(b64decode(file.findtext("file/embed")))
            files.append({"path": path, "source": source.as_posix()})
            for verb in ("view", "download", "viewFile"):
                paths[f"{old}/article/{verb}/{number}/{internal_id(galley)}"] = path
    record = {"same_as": [*same_as, *paths], "metadata": {"dc": dc}, "files": files}
    is_closed = (
        issue.get("access_status") == SUBSCRIPTION and publication.get("access_status") != OPEN
    )
    record |= access([issue.findtext("open_access_date") if is_closed else ""])
    spoken = language(article.get("locale"))
    return record | ({"language": spoken} if spoken else {}), paths


if __name__ == "__main__":
    main(*sys.argv[1:])
