"""Works and their citations in the style of ABNT NBR 6023:2018.

The table was written after the norm as published guides of university libraries describe it and
repeat its examples, not after the text of the norm itself. The patterns of books, chapters, papers,
articles, maps, software and documents with an address were compared with the guide of the library
of the Universidade Federal do Ceará ("Guia de normalização de trabalhos acadêmicos"). Many works
are such examples, some shortened; the others adapt an example to what a repository contains. Of
more than three authors, the first is named with *et al.*, which the norm permits and this guide
does. The number before a case is the chapter of the norm, such as 8.1 for authors.

In a citation, ``**`` encloses bold type and ``*`` italic type. Each citation continues with the
persistent URL and the day of access.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A work and its citation.

    :param about: what the case shows.
    :param dc: the Dublin Core.
    :param citation: the expected citation, without the address.
    """

    about: str
    dc: dict[str, list[str]]
    citation: str


def case(about: str, citation: str, **dc: str | list[str]) -> Case:
    return Case(about, {k: [v] if isinstance(v, str) else v for k, v in dc.items()}, citation)


CASES = [
    case(
        "7.1: a book",
        "LUCK, Heloisa. **Liderança em gestão escolar**. Petrópolis: Vozes, 2010.",
        creator="Luck, Heloisa",
        title="Liderança em gestão escolar",
        publisher="Petrópolis: Vozes",
        date="2010",
        type="Livro",
    ),
    case(
        '8.2: only the title is in bold type, not the subtitle; catalogues write " : "',
        "GOMES, L. G. F. F. **Novela e sociedade no Brasil**: um estudo. Niterói: EdUFF, 1998.",
        creator="Gomes, L. G. F. F.",
        title="Novela e sociedade no Brasil : um estudo",
        publisher="Niterói: EdUFF",
        date="1998",
        type="book",
    ),
    case(
        "7.1: a doctoral thesis, whose degree is stated as the norm does",
        "AGUIAR, André Andrade de. **Avaliação da microbiota bucal**. 2009. Tese (Doutorado em "
        "Cardiologia) – Faculdade de Medicina, Universidade de São Paulo, São Paulo, 2009.",
        creator="Aguiar, André Andrade de",
        title="Avaliação da microbiota bucal",
        publisher="São Paulo: Faculdade de Medicina, Universidade de São Paulo",
        date="2009",
        type="Tese (Doutorado em Cardiologia)",
    ),
    case(
        "a master's thesis",
        "ALVES, Daian Péricles. **Implementação de conceitos de manufatura colaborativa**: um "
        "projeto virtual. 2008. Dissertação (Mestrado) – Universidade Tecnológica Federal do "
        "Paraná, Curitiba, 2008.",
        creator="Alves, Daian Péricles",
        title="Implementação de conceitos de manufatura colaborativa: um projeto virtual",
        publisher="Curitiba: Universidade Tecnológica Federal do Paraná",
        date="2008",
        type="masterThesis",
    ),
    case(
        "a thesis without an institution and without a date",
        "SILVA, Ana. **Chuvas**. [s. d.]. Tese (Doutorado).",
        creator="Silva, Ana",
        title="Chuvas",
        type="Tese",
    ),
    case(
        "7.7: an article with month and DOI",
        "DANTAS, José Alves *et al.* Regulação da auditoria em sistemas bancários: análise do "
        "cenário internacional. **Revista Contabilidade & Finanças**, São Paulo, v. 25, n. 64, "
        "p. 7-18, jan. 2014. DOI: https://doi.org/10.1590/S1519-70772014000100002.",
        creator=["Dantas, José Alves", "Costa, Fábio", "Niyama, Jorge", "Medeiros, Otávio"],
        title="Regulação da auditoria em sistemas bancários: análise do cenário internacional",
        source="Revista Contabilidade & Finanças, São Paulo, v. 25, n. 64, p. 7-18, jan./abr. 2014",
        date="2014-01",
        type="Artigo",
        language="pt",
        identifier="http://dx.doi.org/10.1590/S1519-70772014000100002",
    ),
    case(
        "7.7: an article",
        "DE LUCCA, Gabriella. Notas curtas. **Getulio**, São Paulo, v. 3, p. 9, jul. 2009.",
        creator="De Lucca, Gabriella",
        title="Notas curtas",
        source="Getulio, São Paulo, v. 3, p. 9",
        date="2009-07",
        type="journal article",
    ),
    case(
        "an article as Open Journal Systems describes it, without a place",
        "SILVA, Ana; SOUZA, Rui. Chuva. **Revista X**, [*S. l.*], v. 2, n. 1, p. 45-60, 2015.",
        creator=["Silva, Ana", "Souza, Rui"],
        title="Chuva",
        source=["Revista X; v. 2 n. 1 (2015): Tempo; 45-60", "1234-5678"],
        date="2015",
        type=["info:eu-repo/semantics/article", "info:eu-repo/semantics/publishedVersion"],
    ),
    case(
        "annex A: the month is in the language of the article",
        "SMITH, John. Rain. **Nature**, London, v. 5, p. 1-2, 3 Sept. 1999.",
        creator="Smith, John",
        title="Rain",
        source="Nature, London, v. 5, p. 1--2",
        date="1999-09-03",
        type="article",
        language="en",
    ),
    case(
        "8.1: an article without an author",
        "METEOROLOGIA do século XX. **Ciência Hoje**, Rio de Janeiro, n. 8, 1983.",
        title="Meteorologia do século XX",
        source="Ciência Hoje, Rio de Janeiro, n. 8",
        date="1983",
        type="artigo de revista",
    ),
    case(
        "7.3 and 8.1: a chapter; the title is the entry of the book, whose editors are unknown",
        "SANTOS, F. R. dos. A colonização da terra do Tucujús. *In*: HISTÓRIA do Amapá. "
        "Macapá: Valcan, 1994. p. 15-24.",
        creator="Santos, F. R. dos",
        title="A colonização da terra do Tucujús",
        source="História do Amapá, p. 15-24",
        publisher="Macapá: Valcan",
        date="1994",
        type="Capítulo de livro",
    ),
    case(
        "7.8: a paper in the proceedings of an event",
        "BRAYNER, A. R. A.; MEDEIROS, C. B. Incorporação do tempo em SGBD orientado a objetos. "
        "*In*: SIMPÓSIO BRASILEIRO DE BANCO DE DADOS, 9., 1994, São Paulo. **Anais** [...]. São "
        "Paulo: USP, 1994. p. 16-29.",
        creator=["Brayner, A. R. A.", "Medeiros, C. B."],
        title="Incorporação do tempo em SGBD orientado a objetos",
        source="Simpósio Brasileiro de Banco de Dados, 9., 1994, São Paulo, p. 16-29",
        publisher="São Paulo: USP",
        date="1994",
        type="Trabalho em evento",
    ),
    case(
        "a paper whose source names the proceedings",
        "SOUZA, L. S. Influência da correção e do preparo do solo. *In*: INTERNATIONAL SYMPOSIUM "
        "ON SOILS. **Proceedings** [...]. [*S. l.*: *s. n.*], 1994.",
        creator="Souza, L. S.",
        title="Influência da correção e do preparo do solo",
        source="Proceedings of the International Symposium on Soils",
        date="1994",
        type="conferenceObject",
    ),
    case(
        "8.1: a report of an institution",
        "INSTITUTO BRASILEIRO DO MEIO AMBIENTE E DOS RECURSOS NATURAIS RENOVÁVEIS. **Manual de "
        "normas de editoração do IBAMA**. Brasília, DF: IBAMA, 1993.",
        creator="Instituto Brasileiro do Meio Ambiente e dos Recursos Naturais Renováveis",
        title="Manual de normas de editoração do IBAMA",
        publisher="Brasília, DF: IBAMA",
        date="1993",
        type="Relatório",
    ),
    case(
        "8.1: an addition in parentheses is not in capitals",
        "BIBLIOTECA NACIONAL (Portugal). **O 24 de julho de 1833**. Lisboa: Biblioteca Nacional, "
        "1983.",
        creator="Biblioteca Nacional (Portugal)",
        title="O 24 de julho de 1833",
        publisher="Lisboa: Biblioteca Nacional",
        date="1983",
        type="book",
    ),
    case(
        "8.1: a body of a government",
        "BRASIL. Ministério da Justiça. **Relatório de atividades**. Brasília, DF: Ministério da "
        "Justiça, 1993.",
        creator="Brasil. Ministério da Justiça",
        title="Relatório de atividades",
        publisher="Brasília, DF: Ministério da Justiça",
        date="1993",
        type="Relatório técnico",
    ),
    case(
        "8.1: four authors",
        "URANI, A. *et al.* **Constituição de uma matriz de contabilidade social para o Brasil**. "
        "Brasília, DF: IPEA, 1994.",
        creator=["Urani, A.", "Barros, A.", "Castro, B.", "Dias, C."],
        title="Constituição de uma matriz de contabilidade social para o Brasil",
        publisher="Brasília, DF: IPEA",
        date="1994",
        type="report",
    ),
    case(
        "a person and an organisation",
        "SILVA, Ana; INPE. **Chuva**. São José dos Campos: INPE, 2020.",
        creator=["Silva, Ana", "INPE"],
        title="Chuva",
        publisher="São José dos Campos: INPE",
        date="2020",
        type="report",
    ),
    case(
        "8.1: without an author, the first word is in capitals and nothing in bold type",
        "DIAGNÓSTICO do setor editorial brasileiro. São Paulo: Câmara Brasileira do Livro, 1993.",
        title="Diagnóstico do setor editorial brasileiro",
        publisher="São Paulo: Câmara Brasileira do Livro",
        date="1993",
        type="book",
    ),
    case(
        "8.1: an article at the beginning belongs to the first word",
        "A GAME of Thrones: the board game. Roseville: FFG, 2017.",
        title="A Game of Thrones: the board game",
        publisher="Roseville: FFG",
        date="2017",
        type="software",
    ),
    case(
        "8.4: the place is unknown",
        "OS GRANDES clássicos das poesias líricas. [*S. l.*]: Ex Libris, 1981.",
        title="Os grandes clássicos das poesias líricas",
        publisher="Ex Libris",
        date="1981",
        type="book",
    ),
    case(
        "8.5: place and publisher are unknown",
        "GONÇALVES, F. B. **A história de Mirador**. [*S. l.*: *s. n.*], 1993.",
        creator="Gonçalves, F. B.",
        title="A história de Mirador",
        date="1993",
        type="book",
    ),
    case(
        "8.6: the year is approximate",
        "FLORENZANO, Everton. **Dicionário de ideias semelhantes**. Rio de Janeiro: Ediouro, "
        "[ca. 1993].",
        creator="Florenzano, Everton",
        title="Dicionário de ideias semelhantes",
        publisher="Rio de Janeiro: Ediouro",
        date="c. 1993",
        type="book",
    ),
    case(
        "a range of years is repeated as it is stated",
        "RUCH, Gastão. **História geral da civilização**. Rio de Janeiro: F. Briguiet, 1926-1940.",
        creator="Ruch, Gastão",
        title="História geral da civilização",
        publisher="Rio de Janeiro: F. Briguiet",
        date="1926-1940",
        type="book",
    ),
    case(
        "no date: the norm asks for an estimate, which the Archive can't make; a usual expression",
        "SILVA, Ana. **Chuva**. São Paulo: USP, [s. d.].",
        creator="Silva, Ana",
        title="Chuva",
        publisher="São Paulo: USP",
    ),
    case(
        "a data set with a DOI",
        "SILVA, Ana; SOUZA, Rui. **Rainfall of 2019**. [*S. l.*]: INPE, 2020. DOI: "
        "https://doi.org/10.5281/zenodo.3333333.",
        creator=["Silva, Ana", "Souza, Rui"],
        title="Rainfall of 2019",
        publisher="INPE",
        date="2020-02-29",
        type="Dataset",
        identifier=["doi:10.5281/zenodo.3333333", "http://urlib.net/x"],
    ),
    case(
        "a video whose title is a question",
        "SILVA, Ana. **O que é chuva?** São Paulo: USP, 2001.",
        creator="Silva, Ana",
        title="O que é chuva?",
        publisher="São Paulo: USP",
        date="2001",
        type="Moving Image",
    ),
    case(
        "of the dates of DSpace, the one without a time of day is used",
        "SILVA, Ana. **Chuva**. São Paulo: USP, 1999.",
        creator="Silva, Ana",
        title="Chuva",
        publisher="São Paulo: USP",
        date=["2011-03-04T12:00:00Z", "2012-03-04T12:00:00Z", "1999-05"],
        type="other",
    ),
    case(
        "a bachelor's thesis",
        "ALVES, Daian Péricles. **Manufatura colaborativa**. 2008. Trabalho de Conclusão de Curso "
        "(Graduação) – UTFPR, 2008.",
        creator="Alves, Daian Péricles",
        title="Manufatura colaborativa",
        publisher="UTFPR",
        date="2008",
        type="https://purl.org/coar/resource_type/c_7a1f",
    ),
    case(
        "a thesis of an unknown degree",
        "SILVA, Ana. **Rain**. 2001. Tese – University of Oslo, 2001.",
        creator="Silva, Ana",
        title="Rain",
        publisher="University of Oslo",
        date="2001",
        type="Thesis",
    ),
    case(
        "an article whose journal is unknown",
        "SILVA, Ana. **Chuva**. [*S. l.*: *s. n.*], 2015.",
        creator="Silva, Ana",
        title="Chuva",
        date="2015",
        type="article",
    ),
    case(
        "8.1: three authors",
        "PASSOS, L. M. M.; FONSECA, A.; CHAVES, M. **Alegria de saber**. São Paulo: Scipione, "
        "1995.",
        creator=["Passos, L. M. M.", "Fonseca, A.", "Chaves, M."],
        title="Alegria de saber",
        publisher="São Paulo: Scipione",
        date="1995",
        type="book",
    ),
]
