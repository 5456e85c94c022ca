"""Lists of a description in lines: what people write becomes JSON, and the JSON becomes lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.records.description_lines import format_lines, parse_lines
from flask_ibi_archive.core.records.format_description import format_description
from flask_ibi_archive.core.records.parse_description import parse_description

ROR = "https://ror.org/04xbn6x09"


@for_each(
    ("field", "text", "value"),
    [
        ("creators", "Silva, Ana", ["Silva, Ana"]),
        ("creators", "\n Silva, Ana \n\nSouza, Davi\n", ["Silva, Ana", "Souza, Davi"]),
        (
            "creators",
            f"Silva, Ana; 0000-0002-1825-0097; 1234567890123456; Vale University {ROR}; Serra",
            [
                {
                    "name": "Silva, Ana",
                    "orcid": "0000-0002-1825-0097",
                    "lattes": "1234567890123456",
                    "affiliations": [{"name": "Vale University", "ror": ROR}, "Serra"],
                }
            ],
        ),
        (
            "creators",
            "Silva, Ana; https://orcid.org/0000-0002-1825-0097",
            [{"name": "Silva, Ana", "orcid": "https://orcid.org/0000-0002-1825-0097"}],
        ),
        # a wrong number is not taken for an affiliation, so that the parser can refuse it
        ("creators", "Silva, Ana; 0000-0002", [{"name": "Silva, Ana", "orcid": "0000-0002"}]),
        ("creators", f"Vale Observatory; {ROR}", [{"name": "Vale Observatory", "ror": ROR}]),
        (
            "contributors",
            "advisor: Souza, Davi; Serra\ncommittee member: Costa, Rui\nLima, Eva",
            [
                {"name": "Souza, Davi", "affiliations": ["Serra"], "role": "advisor"},
                {"name": "Costa, Rui", "role": "committee member"},
                "Lima, Eva",
            ],
        ),
        ("titles", "Rain\nChuva [pt]", ["Rain", {"value": "Chuva", "lang": "pt"}]),
        ("subjects", "rain [of fire]", ["rain [of fire]"]),
        (
            "related",
            "IsSupplementedBy doi:10.1000/182\nispartof: https://a.example/1\ndoi:10.1000/183",
            [
                {"identifier": "doi:10.1000/182", "relation": "IsSupplementedBy"},
                {"identifier": "https://a.example/1", "relation": "IsPartOf"},
                "doi:10.1000/183",
            ],
        ),
        (
            "funding",
            f"Vale Foundation; 2024/1; Ice; {ROR}; https://a.example/2",
            [
                {
                    "funder": "Vale Foundation",
                    "number": "2024/1",
                    "title": "Ice",
                    "funder_id": ROR,
                    "url": "https://a.example/2",
                }
            ],
        ),
        ("funding", "Vale Foundation; ; Ice", [{"funder": "Vale Foundation", "title": "Ice"}]),
        (
            "dates",
            "accepted: 2025-03-14\nsubmitted 2025",
            {"accepted": "2025-03-14", "submitted": "2025"},
        ),
        ("institution", f"Vale University ({ROR})", [{"name": "Vale University", "ror": ROR}]),
        ("creators", None, []),
        ("dates", "", {}),
    ],
)
def test_lines_become_values(field: str, text: str | None, value: Any) -> None:
    assert parse_lines(field, text) == value


WORDS = st.from_regex(r"[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8})?", fullmatch=True)
LANGUAGES = st.sampled_from(["en", "pt-BR", "es"])
ORGANISATIONS = WORDS | st.builds(lambda name: {"name": name, "ror": ROR}, WORDS)
NAMES = st.fixed_dictionaries(
    {"name": st.builds("{}, {}".format, WORDS, WORDS)},
    optional={
        "orcid": st.just("0000-0002-1825-0097"),
        "lattes": st.just("1234567890123456"),
        "affiliations": st.lists(ORGANISATIONS, min_size=1, max_size=2),
    },
)
TEXTS = WORDS | st.builds(lambda text, lang: {"value": text, "lang": lang}, WORDS, LANGUAGES)
WORKS = st.fixed_dictionaries(
    {
        "titles": st.lists(TEXTS, min_size=1, max_size=3),
        "creators": st.lists(NAMES, max_size=3),
        "contributors": st.lists(
            st.builds(
                lambda name, role: {**name, "role": role},
                NAMES,
                st.sampled_from(["advisor", "committee member", "data collector", "other"]),
            ),
            max_size=3,
        ),
        "subjects": st.lists(TEXTS, max_size=3),
        "related": st.lists(
            st.sampled_from(["doi:10.1000/1", {"identifier": "hdl:1/2", "relation": "Cites"}]),
            max_size=2,
        ),
        "funding": st.lists(
            st.fixed_dictionaries(
                {"funder": WORDS},
                optional={
                    "number": WORDS,
                    "title": WORDS,
                    "programme": WORDS,
                    "funder_id": st.just(ROR),
                },
            ),
            max_size=2,
        ),
        "dates": st.dictionaries(st.sampled_from(["accepted", "created"]), st.just("2025-03-14")),
    }
)


@given(WORKS)
def test_a_description_in_lines_is_the_same_description(work: dict[str, Any]) -> None:
    described = parse_description("work", format_description(work))
    again = {
        field: parse_lines(field, format_lines(field, format_description(described).get(field)))
        for field in work
    }
    assert parse_description("work", format_description(again)) == described
