"""Contains the texts of the pages in Portuguese and English, and chooses the language of a page.

Each text has a name, which the templates use. The texts about the resolution of persistent URLs are
in :mod:`~flask_ibi_archive.web.resolution_texts`.
"""

from __future__ import annotations

from datetime import date

from flask import request

from flask_ibi_archive.web import resolution_texts

#: The languages of the pages, in the order of the texts in :data:`TEXTS`.
LANGUAGES = ("pt", "en")

#: The names of the months in each language.
MONTHS = {
    "pt": [
        "janeiro",
        "fevereiro",
        "março",
        "abril",
        "maio",
        "junho",
        "julho",
        "agosto",
        "setembro",
        "outubro",
        "novembro",
        "dezembro",
    ],
    "en": [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
}

#: The Portuguese and the English text for each name.
TEXTS: dict[str, tuple[str, str]] = {
    "aliases": ("Outros identificadores", "Other identifiers"),
    "back": ("Voltar à página do item", "Back to the item"),
    "citation": ("Como citar", "How to cite"),
    "content_type": ("Tipo de conteúdo", "Content type"),
    "content_type_data": ("dados", "data"),
    "content_type_metadata": ("metadados", "metadata"),
    "copy": ("cópia", "copy"),
    "dc_contributor": ("Colaborador", "Contributor"),
    "dc_coverage": ("Abrangência", "Coverage"),
    "dc_creator": ("Autor", "Creator"),
    "dc_date": ("Data", "Date"),
    "dc_description": ("Descrição", "Description"),
    "dc_format": ("Formato", "Format"),
    "dc_identifier": ("Identificador", "Identifier"),
    "dc_language": ("Idioma", "Language"),
    "dc_publisher": ("Editora", "Publisher"),
    "dc_relation": ("Relação", "Relation"),
    "dc_rights": ("Direitos", "Rights"),
    "dc_source": ("Fonte", "Source"),
    "dc_subject": ("Assunto", "Subject"),
    "dc_title": ("Título", "Title"),
    "dc_type": ("Tipo", "Type"),
    "deleted": ("Este item foi removido", "This item was removed"),
    "deleted_advice": (
        "O identificador continua válido: ele identifica o item removido e nunca será atribuído a "
        "outro item.",
        "The identifier remains valid: it identifies the removed item and will never be assigned "
        "to another item.",
    ),
    "embargo": (
        "Conteúdo sob embargo: disponível a partir de {day}.",
        "Content under embargo: available from {day}.",
    ),
    "files": ("Arquivos", "Files"),
    "files_forbidden": (
        "O responsável pelo item não permite a divulgação da lista de arquivos.",
        "The owner of the item does not allow its list of files to be shown.",
    ),
    "files_none": ("O item não tem arquivos.", "The item has no files."),
    "identifier": ("Identificador (IBI)", "Identifier (IBI)"),
    "language": ("Idioma", "Language"),
    "last_update": ("Última atualização", "Last update"),
    "metadata": ("Metadados", "Metadata"),
    "metadata_none": ("O item não tem metadados.", "The item has no metadata."),
    "metadata_xml": ("Metadados em Dublin Core (XML)", "Metadata in Dublin Core (XML)"),
    "next_edition": ("Próxima edição", "Next edition"),
    "no_file": ("O item não tem este arquivo", "The item does not have this file"),
    "no_file_advice": (
        "Veja a lista de arquivos ou a página do item.",
        "See the list of files or the page of the item.",
    ),
    "no_format": (
        "O item não tem metadados neste formato",
        "The item has no metadata in this format",
    ),
    "no_item": (
        "Nenhum item deste acervo tem este identificador",
        "No item of this Archive has this identifier",
    ),
    "no_item_advice": (
        "Confira o identificador. O item pode estar em outro acervo.",
        "Check the identifier. The item may be in another Archive.",
    ),
    "not_here": (
        "O conteúdo deste arquivo não está disponível aqui",
        "The content of this file is not available here",
    ),
    "not_ready": (
        "O acervo está temporariamente indisponível",
        "The Archive is temporarily unavailable",
    ),
    "not_ready_advice": (
        "Tente novamente em alguns instantes.",
        "Try again in a moment.",
    ),
    "original": ("original", "original"),
    "original_archive": ("Acervo que contém o original", "Archive that contains the original"),
    "reason": ("Motivo", "Reason"),
    "removed_on": ("Removido em", "Removed on"),
    "resolve": ("Procurar o item em todos os acervos", "Search all Archives for the item"),
    "restricted": ("O acesso a este item é restrito", "Access to this item is restricted"),
    "restricted_advice": (
        "Os arquivos só podem ser acessados a partir de certas redes. Se a sua instituição tem "
        "permissão, acesse a partir da rede dela.",
        "The files can be read only from certain networks. If your institution has access, connect "
        "from its network.",
    ),
    "restricted_reader": (
        "Você não tem permissão para acessar os arquivos deste item.",
        "You do not have permission to read the files of this item.",
    ),
    "state": ("Estado", "State"),
    "stats": ("Estatísticas", "Statistics"),
    "stats_archive": ("Estatísticas de todo o acervo", "Statistics of the whole Archive"),
    "stats_asked": ("Acessos", "Accesses"),
    "stats_bad_choice": (
        "O endereço desta página de estatísticas está errado",
        "The address of this statistics page is wrong",
    ),
    "stats_bad_choice_advice": (
        "Parâmetros permitidos: by=day, month ou year; format=html, csv ou json; until=um dia "
        "(2026-11-21), um mês (2026-11) ou um ano (2026), conforme o valor de by.",
        "Allowed parameters: by=day, month or year; format=html, csv or json; until=a day "
        "(2026-11-21), a month (2026-11) or a year (2026), depending on by.",
    ),
    "stats_by": ("Agrupar", "Group"),
    "stats_by_day": ("Por dia", "By day"),
    "stats_by_month": ("Por mês", "By month"),
    "stats_by_year": ("Por ano", "By year"),
    "stats_chart": (
        "Visualizações e downloads {by}, de {first} a {last}",
        "Views and downloads {by}, from {first} to {last}",
    ),
    "stats_chart_about": (
        "Total de {views} visualizações, com o máximo em {most_views}, e de {downloads} downloads, "
        "com o máximo em {most_downloads}. Todos os números estão na tabela abaixo.",
        "Total of {views} views, with the maximum in {most_views}, and of {downloads} downloads, "
        "with the maximum in {most_downloads}. All numbers are in the table below.",
    ),
    "stats_csv": ("Todos os números em CSV", "All numbers as CSV"),
    "stats_day": ("Dia", "Day"),
    "stats_delivered": ("Acessos por meio de outros itens", "Accesses through other items"),
    "stats_delivered_about": (
        "Acessos de leitores que pediram outro item, como uma edição anterior ou uma tradução, e "
        "receberam este item. Esses acessos são contados para o outro item.",
        "Accesses by readers who requested another item, such as an earlier edition or a "
        "translation, and received this item. These accesses are counted for the other item.",
    ),
    "stats_double_clicks": ("Cliques duplos", "Double clicks"),
    "stats_downloads": ("Downloads", "Downloads"),
    "stats_earlier": ("Anteriores", "Earlier"),
    "stats_json": ("Todos os números em JSON", "All numbers as JSON"),
    "stats_later": ("Posteriores", "Later"),
    "stats_month": ("Mês", "Month"),
    "stats_more": ("Outros períodos", "Other periods"),
    "stats_none": ("Nenhum acesso foi contado até agora.", "No access has been counted so far."),
    "stats_none_here": (
        "Nenhum acesso foi contado neste período.",
        "No access was counted in this period.",
    ),
    "stats_robots": ("Robôs", "Robots"),
    "stats_sum": ("Total", "Total"),
    "stats_sum_shown": ("Subtotal", "Subtotal"),
    "stats_take": ("Baixar os números", "Download the numbers"),
    "stats_views": ("Visualizações", "Views"),
    "stats_what": (
        "Visualizações são acessos a metadados; downloads são acessos a arquivos, por meio de URLs "
        "persistentes. Conforme o Código de Prática COUNTER, cliques duplos (um segundo clique em "
        "até 30 segundos) e acessos de robôs não são incluídos; eles aparecem em colunas separadas "
        "da tabela. Os dias seguem o horário UTC.",
        "Views are accesses to metadata through persistent URLs. Downloads are accesses to files "
        "through persistent URLs. According to the COUNTER Code of Practice, views and downloads "
        "do not include double clicks (a second click within 30 seconds) and accesses by robots. "
        "The table shows these accesses in separate columns. Days are in UTC.",
    ),
    "stats_year": ("Ano", "Year"),
    "successor": ("Item que o substitui", "Item that replaces it"),
    "title": ("Título", "Title"),
    "translations": ("Traduções", "Translations"),
    "what_next": ("O que fazer", "What to do next"),
    **resolution_texts.TEXTS,
}


def page_language() -> str:
    """Return the language of the page, ``pt`` or ``en``, that the reader prefers."""
    # best_match of werkzeug would prefer en to pt-BR, because only en matches exactly
    for tag, quality in request.accept_languages:
        language = str(tag).partition("-")[0].lower()
        if quality > 0 and language in LANGUAGES:
            return language
    return "en"


def format_day(day: date, language: str) -> str:
    """Return a day as readers write it.

    >>> format_day(date(2027, 3, 1), "pt"), format_day(date(2027, 3, 1), "en")
    ('1º de março de 2027', '1 March 2027')
    """
    month = MONTHS[language][day.month - 1]
    if language == "pt":
        return f"{'1º' if day.day == 1 else day.day} de {month} de {day.year}"
    return f"{day.day} {month} {day.year}"


def texts(language: str) -> dict[str, str]:
    """Return all texts in one language, by name."""
    index = LANGUAGES.index(language)
    return {name: both[index] for name, both in TEXTS.items()}
