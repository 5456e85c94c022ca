"""Random works with complete descriptions: the same seed gives the same work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from random import Random
from typing import Any, TypeVar, get_args

from hypothesis import strategies as st
from msgspec.structs import replace

from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records.description import (
    Container,
    Degree,
    Description,
    Grant,
    Name,
    Organisation,
    RelatedWork,
    Subject,
    Text,
    Title,
    WorkType,
    derive_dublin_core,
)
from flask_ibi_archive.core.records.record import AccessRule, FileRecord, Record
from flask_ibi_archive.core.records.values import IssuedDate, parse_date
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work
from support.metadata import BASE, IBI

Value = TypeVar("Value")

_WORDS = [
    "chuva", "São José", "<b>", "&amp;", "]]>", '"aspas"', "l'eau", "東京", "Ω≈ç", "😀", "مطر",
    "--", "a\u0301", "2009", "v. 2", "10.1000/182", "\u2028", "\ufffd", "{x}", "\\", "%41", ":unav",
]  # fmt: skip
_LANGUAGES = [None, "pt", "pt-BR", "en", "es", "zh-Hant-TW", "gn", "tupi", "i-klingon", "sr-Latn"]
_ROR = "https://ror.org/04xbn6x09"
_LICENCES = [
    None, "https://creativecommons.org/licenses/by/4.0/", "https://spdx.org/licenses/MIT",
    "https://creativecommons.org/publicdomain/zero/1.0/", "https://a.example/licence?a=1&b=%41",
    "https://creativecommons.org/licenses/by/3.0/br/",
]  # fmt: skip
_RELATED = [
    RelatedWork("doi:10.1000/a<b>&c", "DOI", "https://doi.org/10.1000/a%3Cb%3E&c"),
    RelatedWork("hdl:20.500/1", "Handle", "https://hdl.handle.net/20.500/1"),
    RelatedWork("ark:12345/x5", "ARK", "https://n2t.net/ark:12345/x5"),
    RelatedWork("urn:nbn:br:bn-1", "URN"),
    RelatedWork("8JMKD3MGP8W/35MME4Z", "IBI"),
    RelatedWork("https://a.example/1?b=c&d", "URL", "https://a.example/1?b=c&d"),
    RelatedWork("9780306406157", "ISBN"),
    RelatedWork("0100-879X", "ISSN"),
]
_SAME_AS = [
    "doi:10.5281/Zenodo.12", "doi:10.1000.5/x", "hdl:20.500.12345/678", "ark:12345/x54xz321",
    "urn:nbn:br:bn-1", "http://old.example.org/handle/1/2?x=y&z",
]  # fmt: skip
_DATES = ["2009", "0987", "2009-07", "2009-07-21", "c. 1998", "1998-2001", "s. d.", "May 1998"]
_VERSIONS = ["2. ed.", "1.0.3", "acceptedVersion", "info:eu-repo/semantics/publishedVersion"]
_MEDIA_TYPES = [None, "application/pdf", "text/csv"]


class _Draws:
    """Draws random parts of a description."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def one(self, values: Any) -> Any:
        return self.random.choice(values)

    def term(self, literal: Any) -> Any:
        return self.random.choice(get_args(literal))

    def maybe(self, draw: Callable[[], Value]) -> Value | None:
        return draw() if self.random.random() < 0.5 else None

    def some(self, draw: Callable[[], Value]) -> tuple[Value, ...]:
        return tuple(draw() for _ in range(self.one([0, 0, 1, 1, 2, 3])))

    def line(self) -> str:
        return " ".join(self.random.choices(_WORDS, k=self.one([1, 1, 2, 4])))

    def text(self) -> Text:
        separator = self.one([" ", "\n", "\r\n", "\t", "\n\n"])
        return separator.join(self.line() for _ in range(self.one([1, 2, 3]))), self.language()

    def language(self) -> str | None:
        return self.one(_LANGUAGES)

    def date(self) -> IssuedDate:
        return parse_date(self.one(_DATES))

    def organisation(self) -> Organisation:
        return Organisation(self.line(), self.one([None, _ROR]))

    def name(self) -> Name:
        if self.random.random() < 0.3:
            kind = self.one([None, "organisation"])
            return Name(self.line(), kind=kind, ror=self.one([None, _ROR]))
        return Name(
            self.line(),
            self.maybe(self.line),
            self.one([None, "0000-0002-1825-0097"]),
            self.one([None, "person"]),
            self.one([None, "1234567890123456"]),
            affiliations=self.some(self.organisation),
        )

    def contributor(self) -> Name:
        return replace(self.name(), role=self.one([None, *get_args(model.Role)]))

    def title(self) -> Title:
        return Title(self.line(), self.language(), self.maybe(lambda: self.term(model.TitleKind)))

    def subject(self) -> Subject:
        scheme = self.one([None, "CNPq", "LCSH", self.line()])
        return Subject(self.line(), self.language(), scheme, self.one(_LICENCES))

    def related(self) -> RelatedWork:
        relation = self.maybe(lambda: self.term(model.Relation))
        return replace(self.one(_RELATED), relation=relation)

    def grant(self) -> Grant:
        return Grant(
            self.line(),
            self.maybe(self.line),
            self.maybe(self.line),
            self.one([None, _ROR, "https://doi.org/10.13039/501100001807"]),
            self.maybe(self.line),
            self.one([None, "https://a.example/grant?x=1&y"]),
        )

    def degree(self) -> Degree:
        return Degree(
            self.maybe(self.line),
            self.maybe(lambda: self.term(model.DegreeLevel)),
            self.maybe(self.line),
            self.maybe(self.organisation),
            self.maybe(self.date),
        )

    def container(self) -> Container:
        parts = (self.maybe(self.line) for _ in range(3))
        return Container(self.line(), *parts, self.one([None, "7", "7-18", "e5-e9"]))

    def description(self) -> Description:
        return Description(
            titles=(Title(self.line(), self.language()), *self.some(self.title)),
            creators=self.some(self.name),
            contributors=self.some(self.contributor),
            type=self.one([*WorkType]),
            type_text=self.maybe(self.line),
            publisher=self.one([None, "INPE", "São José dos Campos: INPE", self.line()]),
            issued=self.maybe(self.date),
            dates={self.term(model.DateKind): self.date() for _ in self.some(int)},
            degree=self.maybe(self.degree),
            container=self.maybe(self.container),
            abstracts=self.some(self.text),
            subjects=self.some(self.subject),
            rights=self.some(self.text),
            licence_url=self.one(_LICENCES),
            access_right=self.maybe(lambda: self.term(model.AccessRight)),
            issn=self.one([None, "0100-879X"]),
            isbn=self.one([None, "978-0-306-40615-7"]),
            number=self.maybe(self.line),
            version=self.one([None, self.line(), *_VERSIONS]),
            extent=self.one([None, "171 p.", self.line()]),
            coverage=self.some(self.text),
            notes=self.some(self.text),
            related=self.some(self.related),
            funding=self.some(self.grant),
        )

    def file(self) -> WorkFile:
        return WorkFile(
            self.line(),
            "http://example.org/file?a=1&b=%41",
            self.one(_MEDIA_TYPES),
            self.one([None, 0, 10**12]),
            self.one([None, "0" * 64]),
        )

    def record(self) -> Record:
        day = date(2026, 1, 1) + timedelta(self.random.randint(-500, 500))
        return Record(
            ibip=IBI,
            rep=self.one([None, "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"]),
            timestamp=self.one([None, datetime(2011, 3, 4, 5, 6, 7, tzinfo=timezone.utc)]),
            language=self.one([None, "pt", "en-GB"]),
            next_edition=self.one([None, "8JMKD3MGP8W/35MME4R"]),
            translations=self.one([{}, {"en": "8JMKD3MGP8W/35MME4Q"}]),
            same_as=tuple(dict.fromkeys(self.some(lambda: self.one(_SAME_AS)))),
            embargo=self.one([None, day]),
            access=self.one([None, AccessRule(("192.0.2.0/24",))]),
            files=self.one([(), (FileRecord("a.pdf"),)]),
        )


def make_random_work(seed: int) -> Work:
    """Return the random work of a seed."""
    draws = _Draws(seed)
    described = draws.description()
    return make_work(
        draws.record(),
        derive_dublin_core(described),
        BASE,
        description=described,
        files=draws.some(draws.file),
        previous_edition=draws.one([None, "8JMKD3MGP8W/35MME4S"]),
        translation_of=draws.one([None, "8JMKD3MGP8W/35MME4P"]),
        archive_name="Acervo",
        today=draws.one([None, date(2026, 1, 1)]),
    )


described_works = st.builds(make_random_work, st.integers(0, 2**32))
