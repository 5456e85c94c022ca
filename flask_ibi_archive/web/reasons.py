"""The messages in which the pages say why a text is refused, in English and Portuguese.

The English messages are in :data:`flask_ibi_archive.reasons.ENGLISH`. The Portuguese messages have
the same codes and the same placeholders.
"""

from __future__ import annotations

from flask_ibi_archive.reasons import ENGLISH, Reason

#: The Portuguese messages by code.
PORTUGUESE: dict[str, str] = {
    # --- identifiers
    "identifier_empty": "está vazio",
    "identifier_too_long": "tem {length} caracteres, mas são permitidos no máximo {limit}",
    "character_not_allowed": (
        "{character!r}, na posição {position}, não é permitido em um identificador"
    ),
    "character_not_ascii": (
        "{character!r}, na posição {position}, não é um caractere ASCII, e um identificador só tem "
        "caracteres ASCII"
    ),
    "slash_missing": "não tem '/' entre um prefixo e um sufixo",
    "number_of_parts": (
        "tem {count} partes separadas por '/', mas um nome de repositório tem quatro "
        "(subdomínio/palavra/ano/mês.dia.hora.minuto) e um IBIp tem duas palavras de letras e "
        "dígitos"
    ),
    "rep_required": "é um identificador da forma {form}, mas é preciso um nome de repositório",
    "ibip_required": "é um identificador da forma {form}, mas é preciso um IBIp",
    "not_canonical": "não é o texto canônico de um identificador da forma {form}",
    # --- IBIps
    "first_part_empty": "a primeira parte está vazia",
    "second_part_empty": "a segunda parte está vazia",
    "first_part_character": (
        "a primeira parte tem {character!r}, mas um IBIp só tem os dígitos de 2 a 9 e as letras de "
        "A a U, menos I e O, com W e X para separar"
    ),
    "second_part_character": (
        "a segunda parte tem {character!r}, mas um IBIp só tem os dígitos de 2 a 9 e as letras de "
        "A a U, menos I e O, com W e X para separar"
    ),
    "separator_missing": (
        "a primeira parte não tem 'W' nem 'X', mas um deles deve separar o endereço da porta"
    ),
    "separator_repeated": (
        "a primeira parte tem 'W' ou 'X' {count} vezes, mas só um deve separar o endereço da porta"
    ),
    "address_code_missing": "a primeira parte não tem o código de um endereço antes de 'W' ou 'X'",
    "x_in_second_part": ("a segunda parte tem 'X', mas só 'W' pode separar os segundos da fração"),
    "seconds_code_missing": "a segunda parte não tem o código dos segundos antes de 'W'",
    "fraction_repeated": (
        "a segunda parte tem mais de um 'W', mas só pode haver um, antes da fração"
    ),
    "fraction_code_missing": "a segunda parte não tem o código de uma fração depois de 'W'",
    # --- repository names
    "word_of_subdomain": "a palavra {number} do subdomínio, {word!r}, {problem}",
    "word_after_subdomain": "a palavra depois do subdomínio, {word!r}, {problem}",
    "word_empty": "está vazia",
    "word_character": "tem {character!r}, mas só pode ter letras, dígitos e hifens",
    "word_hyphen": "começa ou termina com hífen, mas nesse lugar deve haver uma letra ou um dígito",
    "last_word": "é a última palavra do nome de domínio e deve começar com uma letra",
    "port_missing": (
        "a segunda parte termina com {sign!r}, mas depois devem vir os dígitos de uma porta"
    ),
    "port_not_digits": "a porta, {port!r}, deve ter só dígitos",
    "year": "o ano, {value!r}, deve ser um número de 0001 a 9999, com quatro dígitos",
    "month": "o mês, {value!r}, deve ser um número de 01 a 12, com dois dígitos",
    "day": "o dia, {value!r}, deve ser um número de 01 a 31, com dois dígitos",
    "hour": "a hora, {value!r}, deve ser um número de 00 a 23, com dois dígitos",
    "minute": "o minuto, {value!r}, deve ser um número de 00 a 59, com dois dígitos",
    "second": "o segundo, {value!r}, deve ser um número de 00 a 59, com dois dígitos",
    "day_missing": "a data termina antes do dia; sua forma é mês.dia.hora.minuto",
    "hour_missing": "a data termina antes da hora; sua forma é mês.dia.hora.minuto",
    "minute_missing": "a data termina antes do minuto; sua forma é mês.dia.hora.minuto",
    "no_such_day": "o dia, {day!r}, não existe no mês {month} de {year}",
    "date_too_long": "a data tem partes demais; nada pode vir depois da fração do segundo",
    "fraction_not_digits": "a fração do segundo, {fraction!r}, deve ter só dígitos",
    # --- decoding of identifiers in the right form
    "port_range": "sua porta, {port}, não é um número de 1 a 65535",
    "no_address_and_port": "sua primeira parte não contém um endereço e uma porta: {problem}",
    "no_date": "sua segunda parte não contém uma data: {problem}",
    "address_code_too_long": ("{code!r} é longo demais para o código de um endereço {version}"),
    "not_an_address": "{code!r} é o código de {text!r}, que não é um endereço {version}",
    "not_a_port": "{code!r} não é o código de uma porta de 1 a 65535",
    "prefix_not_canonical": "{ip} com a porta {port} se escreve {right!r}, e não {prefix!r}",
    "suffix_not_canonical": "sua data se escreve {right!r}, e não {suffix!r}",
    "year_range": "o segundo POSIX {second} está fora dos anos 0001 a 9999",
    "endless_fraction": (
        "a fração de seu segundo não pode ser escrita com {limit} dígitos decimais; deve ser um "
        "número de décimos, centésimos e assim por diante"
    ),
    # --- persistent URLs
    "not_http": "deve começar com http:// ou https://, como {example}",
    "url_too_long": (
        "é longa demais; depois do nome do servidor podem vir no máximo {limit} caracteres"
    ),
    "path_too_long": (
        "o caminho depois do IBI é longo demais; no máximo {limit} caracteres podem ser enviados a "
        "um serviço de Arquivo, e cada um de & = + ? conta como três"
    ),
    "identifier_missing": ("não há um IBI depois do nome do servidor; uma URL correta é {example}"),
    "not_an_identifier": "{text!a} não é um IBI: {problem}",
    "after_modifier": (
        '{text!a} não pode vir depois do IBI e de seu modificador; um modificador é feito de "!", '
        '"+", "+(pt-BR)", ":" e ":(oai_dc)", e um caminho começa com "/"'
    ),
    "wrong_order": (
        "{step} não pode vir depois de {previous} aqui; a ordem é última edição e tradução (em "
        "qualquer ordem, cada uma no máximo uma vez), depois metadados, depois tradução"
    ),
    "parameter_repeated": "{name} aparece mais de uma vez, mas deve aparecer uma só vez",
    "parameter_value": "{name} é {value!a}; o único valor permitido é {allowed}",
    "in_parameter": "{name}: {problem}",
    "unknown_verb": (
        "{text!a} não é um verbo; os verbos são GetTranslation, GetTranslation(xx-YY), "
        "GetLastEdition, GetMetadata, GetMetadata(formato) e GetFileList"
    ),
    "last_edition_parameter": "a última edição não tem parâmetro; retire {parameter!a}",
    "not_a_format": (
        '{text!a} não é um formato; um formato é uma só palavra de letras, dígitos, "_" e "-", '
        "como oai_dc"
    ),
    "language_case": (
        "{text!a} não é um idioma, pois maiúsculas e minúsculas são diferentes; escreva {right}"
    ),
    "unknown_country": (
        "{text!a} não é um idioma: depois do hífen deve vir um código de país da ISO 3166-1, como "
        "em pt-BR"
    ),
    "unknown_language": (
        "{text!a} não é um idioma; um idioma é um código da ISO 639-1, como pt, ou um desses "
        "códigos com um código de país da ISO 3166-1, como pt-BR"
    ),
}


def translate_reason(reason: Reason | None, language: str) -> str:
    """Return the message for a reason; return "" if the reason is None.

    :param language: the language of the page, ``pt`` or ``en``.
    """
    if reason is None:
        return ""
    return reason.format(PORTUGUESE if language == "pt" else ENGLISH)
