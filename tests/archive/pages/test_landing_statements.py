"""A landing page needs at most four SQL statements, however many relations the item has."""

from __future__ import annotations

from pathlib import Path

from flask import Flask
from support.archives import archive_of, import_records
from support.pages import see
from support.statements import count_statements
from support.web import rep, source

OLD, NEW, NEWEST, TRANSLATION, METADATA = map(rep, range(1, 6))


def test_a_landing_page_shows_related_items_by_title_with_few_statements(
    app: Flask, tmp_path: Path
) -> None:
    dc = {"title": [{"value": "The metadata", "lang": "en"}], "creator": ["Silva, Ana"]}
    files = [{"path": name, "source": source(tmp_path, name)} for name in ("report.pdf", "new.txt")]
    import_records(
        archive_of(app),
        [
            {"rep": OLD, "next_edition": NEW, "metadata": {"dc": {"title": ["First edition"]}}},
            {
                "rep": NEW,
                "language": "en",
                "next_edition": NEWEST,
                "translations": {"pt": TRANSLATION},
                "metadata": {"ibi": METADATA},
                "files": files,
            },
            {"rep": NEWEST, "metadata": {"dc": {"title": ["Third edition"]}}},
            {"rep": TRANSLATION, "language": "pt", "metadata": {"dc": {"title": ["Tradução"]}}},
            {"rep": METADATA, "content_type": "Metadata", "metadata": {"dc": dc}},
        ],
    )
    page = see(app, f"/col/{NEW}/", language="en")
    # title and author are those of the metadata item
    assert page.text("h1") == "The metadata"
    assert "Silva, Ana" in page.source
    for title in ("First edition", "Third edition", "Tradução"):
        assert f">{title}</cite>" in page.source
    assert page.source.index("A newer edition of this item exists") < page.source.index("Files")
    assert len(count_statements(app, lambda: see(app, f"/col/{NEW}/"))) <= 7
