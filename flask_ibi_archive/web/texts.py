"""What the pages say, in Portuguese and English."""

from __future__ import annotations

from flask import request

from flask_ibi_archive.web import resolution_texts

LANGUAGES = ("pt", "en")

TEXTS: dict[str, tuple[str, str]] = {
    "access": ("Acesso", "Access"),
    "aliases": ("Outros identificadores", "Further identifiers"),
    "back": ("Voltar ao item", "Back to the item"),
    "citation": ("Como citar", "How to cite"),
    "content_type": ("Tipo de conteúdo", "Content type"),
    "copy": ("cópia", "copy"),
    "deleted": ("Este item foi removido", "This item was removed"),
    "deleted_advice": (
        "O identificador continua valendo: ele pertence ao item removido e não será dado a outro.",
        "The identifier stays valid: it belongs to the removed item and is never given to another.",
    ),
    "elsewhere": ("(em outro lugar)", "(elsewhere)"),
    "files": ("Arquivos", "Files"),
    "files_forbidden": (
        "O responsável pelo item não permite que a lista de seus arquivos seja divulgada.",
        "The owner of the item does not allow the list of its files to be shown.",
    ),
    "files_none": ("O item não tem arquivos.", "The item has no files."),
    "identifier": ("Identificador (IBI)", "Identifier (IBI)"),
    "language": ("Idioma", "Language"),
    "last_update": ("Última atualização", "Last update"),
    "metadata": ("Metadados", "Metadata"),
    "metadata_none": ("O item não tem metadados.", "The item has no metadata."),
    "metadata_xml": ("Metadados em Dublin Core (XML)", "Metadata in Dublin Core (XML)"),
    "next_edition": ("Edição seguinte", "Next edition"),
    "no_file": ("O item não tem este arquivo", "The item has no such file"),
    "no_file_advice": (
        "Veja a lista de seus arquivos, ou a página do item.",
        "See the list of its files, or the page of the item.",
    ),
    "no_format": (
        "O item não tem metadados neste formato",
        "The item has no metadata in this format",
    ),
    "no_item": (
        "Nenhum item deste Arquivo tem este identificador",
        "No item of this Archive bears this identifier",
    ),
    "no_item_advice": (
        "Confira o identificador. O item pode estar em outro Arquivo.",
        "Check the identifier. The item may be in another Archive.",
    ),
    "not_here": (
        "O conteúdo deste arquivo não está guardado aqui",
        "The content of this file is not kept here",
    ),
    "original": ("original", "original"),
    "original_archive": ("Arquivo que guarda o original", "Archive that holds the original"),
    "not_ready": ("O Arquivo não pode responder agora", "The Archive can't answer now"),
    "not_ready_advice": ("Tente de novo em instantes.", "Try again in a moment."),
    "reason": ("Motivo", "Reason"),
    "removed_on": ("Removido em", "Removed on"),
    "resolve": ("Procurar o item em todos os Arquivos", "Look for the item in all Archives"),
    "restricted": ("O acesso a este item é restrito", "Access to this item is restricted"),
    "restricted_advice": (
        "Seus arquivos são para usuários de certas redes. Se você é um deles, acesse a partir da rede de "
        "sua instituição.",
        "Its files are for the users of certain networks. If you are one of them, come from the network of "
        "your institution.",
    ),
    "state": ("Estado", "State"),
    "stats": ("Estatísticas", "Statistics"),
    "stats_archive": ("Estatísticas de todo o Arquivo", "Statistics of the whole Archive"),
    "stats_asked": ("Acessos", "Accesses"),
    "stats_bad_choice": (
        "Este endereço de estatísticas não está certo",
        "This address of statistics is not right",
    ),
    "stats_bad_choice_advice": (
        "by é day, month ou year; format é html, csv ou json; until é um dia (2026-11-21), um mês (2026-11) ou "
        "um ano (2026), conforme by.",
        "by is day, month or year; format is html, csv or json; until is a day (2026-11-21), a month (2026-11) "
        "or a year (2026), as by says.",
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
        "Ao todo {views} visualizações, mais em {most_views}, e {downloads} downloads, mais em "
        "{most_downloads}. A tabela abaixo tem todos os números.",
        "In all {views} views, most of them in {most_views}, and {downloads} downloads, most of them in "
        "{most_downloads}. The table below has all numbers.",
    ),
    "stats_csv": ("Todos os números em CSV", "All numbers as CSV"),
    "stats_day": ("Dia", "Day"),
    "stats_delivered": ("Acessos a partir de outros itens", "Accesses by way of other items"),
    "stats_delivered_about": (
        "Quem pediu outro item, como uma edição anterior ou o mesmo em outro idioma, e foi levado a este. "
        "Estes acessos são contados para o outro item.",
        "By those who asked for another item, such as an earlier edition or the same in another language, and "
        "were led to this one. They are counted for that other item.",
    ),
    "stats_double_clicks": ("Cliques repetidos", "Double clicks"),
    "stats_downloads": ("Downloads", "Downloads"),
    "stats_earlier": ("Antes", "Earlier"),
    "stats_json": ("Todos os números em JSON", "All numbers as JSON"),
    "stats_later": ("Depois", "Later"),
    "stats_month": ("Mês", "Month"),
    "stats_more": ("Outros períodos", "Other periods"),
    "stats_none": ("Nenhum acesso foi contado até agora.", "No access has been counted so far."),
    "stats_none_here": (
        "Nenhum acesso foi contado neste período.",
        "No access was counted in this time.",
    ),
    "stats_robots": ("Robôs", "Robots"),
    "stats_sum": ("Total", "Total"),
    "stats_sum_shown": ("Soma", "Shown"),
    "stats_take": ("Levar os números", "Take the numbers along"),
    "stats_views": ("Visualizações", "Views"),
    "stats_what": (
        "Visualizações são acessos a metadados, downloads são acessos a arquivos, por meio de URL "
        "persistentes. Como pede o Código de Prática COUNTER, um segundo clique em 30 segundos e os acessos "
        "de robôs não entram na conta; eles estão à parte na tabela. Os dias são os do UTC.",
        "Views are accesses to metadata, downloads are accesses to files, by way of persistent URLs. As the "
        "COUNTER Code of Practice asks, a second click within 30 seconds and the accesses of robots don't "
        "count; the table has them apart. Days are those of UTC.",
    ),
    "stats_year": ("Ano", "Year"),
    "successor": ("Item que o substitui", "Item that takes its place"),
    "title": ("Título", "Title"),
    "translations": ("Traduções", "Translations"),
    "what_next": ("O que fazer", "What to do next"),
    **resolution_texts.TEXTS,
}


def page_language() -> str:
    """Return the language of a page: that of the two which the reader prefers, else English."""
    # not best_match: to it pt-BR is worth less than any language that is there to the letter
    for tag, quality in request.accept_languages:
        language = str(tag).partition("-")[0].lower()
        if quality > 0 and language in LANGUAGES:
            return language
    return "en"


def texts(language: str) -> dict[str, str]:
    """Return what the pages say in a language."""
    place = LANGUAGES.index(language)
    return {name: both[place] for name, both in TEXTS.items()}
