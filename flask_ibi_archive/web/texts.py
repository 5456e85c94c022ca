"""What the pages say, in Portuguese and English."""

from __future__ import annotations

from flask import request

LANGUAGES = ("pt", "en")

TEXTS: dict[str, tuple[str, str]] = {
    "access": ("Acesso", "Access"),
    "aliases": ("Outros identificadores", "Further identifiers"),
    "back": ("Voltar ao item", "Back to the item"),
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
    "not_ready": ("O Arquivo não pode responder agora", "The Archive can't answer now"),
    "not_ready_advice": ("Tente de novo em instantes.", "Try again in a moment."),
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
    "translations": ("Traduções", "Translations"),
    "what_next": ("O que fazer", "What to do next"),
}


def page_language() -> str:
    """Give the language of a page: that of the two which the reader prefers, else English."""
    # not best_match: to it pt-BR is worth less than any language that is there to the letter
    for tag, quality in request.accept_languages:
        language = str(tag).partition("-")[0].lower()
        if quality > 0 and language in LANGUAGES:
            return language
    return "en"


def texts(language: str) -> dict[str, str]:
    """Give what the pages say in a language."""
    place = LANGUAGES.index(language)
    return {name: both[place] for name, both in TEXTS.items()}
