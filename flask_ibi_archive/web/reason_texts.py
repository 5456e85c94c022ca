"""Why a text is no persistent URL, or tells no origin: the core's English and the pages'
Portuguese.

The English text is the key, with ``{}`` for each field; the Portuguese one has the same fields in
the same order. A row is here for each reason that a reader can be given, and for no other.
"""

from __future__ import annotations

#: What stands in front of a reason, and says where it holds; several may follow each other.
LEADS: dict[str, str] = {
    "{} is no IBI: ": "{} não é um IBI: ",
    # a sign, a verb or the name of a pair
    "{}: ": "{}: ",
    "word {} of the subdomain, {}, ": "a palavra {} do subdomínio, {}, ",
    "the word behind the subdomain, {}, ": "a palavra depois do subdomínio, {}, ",
    "its first part gives no address and port: ": "sua primeira parte não indica um endereço e uma porta: ",
    "its second part gives no date: ": "sua segunda parte não indica uma data: ",
}

#: The persistent URL as a whole: its host, its length, its modifier and its query.
_URL = {
    "it begins neither with http:// nor with https://; right is {}": (
        "não começa com http:// nem com https://; o certo é, por exemplo, {}"
    ),
    "it is too long; at most {} characters may stand behind the host": (
        "é longa demais; depois do nome do servidor podem vir no máximo {} caracteres"
    ),
    "the path behind the IBI is too long; at most {} characters can be sent to an Archive, where each of "
    "& = + ? counts as three": (
        "o caminho depois do IBI é longo demais; no máximo {} caracteres podem ser enviados a um Arquivo, e "
        "cada um de & = + ? conta como três"
    ),
    "there is no IBI behind the host; right is {}": (
        "não há um IBI depois do nome do servidor; o certo é, por exemplo, {}"
    ),
    '{} can\'t stand behind the IBI and its modifier; a modifier is made of "!", "+", "+(pt-BR)", ":" and '
    '":(oai_dc)", and a path begins with "/"': (
        '{} não pode vir depois do IBI e de seu modificador; um modificador é feito de "!", "+", '
        '"+(pt-BR)", ":" e ":(oai_dc)", e um caminho começa com "/"'
    ),
    "{} can't stand behind {} here; the order is last edition and translation (either first, each once), "
    "then metadata, then translation": (
        "{} não pode vir depois de {} aqui; a ordem é última edição e tradução (em qualquer ordem, cada uma "
        "no máximo uma vez), depois metadados, depois tradução"
    ),
    "{} is given more than once": "{} aparece mais de uma vez",
    "{} is {}; its only value is {}": "{} é {}; o único valor possível é {}",
    "{} is no verb; the verbs are GetTranslation, GetTranslation(xx-YY), GetLastEdition, GetMetadata, "
    "GetMetadata(format) and GetFileList": (
        "{} não é um verbo; os verbos são GetTranslation, GetTranslation(xx-YY), GetLastEdition, "
        "GetMetadata, GetMetadata(formato) e GetFileList"
    ),
    "a last edition has no parameter, but {} is given": (
        "a última edição não tem parâmetro, mas foi dado {}"
    ),
    '{} is no format; it should be one word of letters, digits, "_" and "-", such as oai_dc': (
        '{} não é um formato; deve ser uma só palavra de letras, dígitos, "_" e "-", como oai_dc'
    ),
    "{} is no language, since case counts; write {}": (
        "{} não é um idioma, pois há diferença entre maiúsculas e minúsculas; escreva {}"
    ),
    "{} is no language: behind the hyphen stands a country of ISO 3166-1, such as pt-BR": (
        "{} não é um idioma: depois do hífen vem um país da ISO 3166-1, como em pt-BR"
    ),
    "{} is no language; it should be a code of ISO 639-1, such as pt, or one with a country of "
    "ISO 3166-1, such as pt-BR": (
        "{} não é um idioma; deve ser um código da ISO 639-1, como pt, ou um desses códigos com um país da "
        "ISO 3166-1, como pt-BR"
    ),
}

#: What is no identifier, of either form.
_IDENTIFIER = {
    "it has {} characters, where at most {} are allowed": (
        "tem {} caracteres, mas são permitidos no máximo {}"
    ),
    "{} at position {} is no character of an identifier": (
        "{}, na posição {}, não é permitido em um identificador"
    ),
    "{} at position {} is not an ASCII character, so none of an identifier": (
        "{}, na posição {}, não é um caractere ASCII, e por isso não pode estar num identificador"
    ),
    "it has no '/' between a prefix and a suffix": "não tem '/' entre um prefixo e um sufixo",
    "it has {} parts joined by '/', where a repository name has four "
    "(subdomain/word/year/month.day.hour.minute) and an IBIp has two words of letters and digits": (
        "tem {} partes ligadas por '/', mas um nome de repositório tem quatro "
        "(subdomínio/palavra/ano/mês.dia.hora.minuto) e um IBIp tem duas palavras de letras e dígitos"
    ),
}

#: Two words that are no IBIp.
_IBIP = {
    "the second part is empty": "a segunda parte está vazia",
    "the first part has {}, where an IBIp has 2 to 9 and the letters A to U but I and O, with W and X to "
    "separate": (
        "a primeira parte tem {}, mas um IBIp só tem 2 a 9 e as letras de A a U, menos I e O, com W e X para "
        "separar"
    ),
    "the second part has {}, where an IBIp has 2 to 9 and the letters A to U but I and O, with W and X to "
    "separate": (
        "a segunda parte tem {}, mas um IBIp só tem 2 a 9 e as letras de A a U, menos I e O, com W e X para "
        "separar"
    ),
    "the first part has no 'W' or 'X', where one stands between address and port": (
        "a primeira parte não tem 'W' nem 'X', mas um deles deve estar entre o endereço e a porta"
    ),
    "the first part has 'W' or 'X' {} times, where one stands between address and port": (
        "a primeira parte tem 'W' ou 'X' {} vezes, mas só um deve estar entre o endereço e a porta"
    ),
    "the first part has no code of an address in front of 'W' or 'X'": (
        "a primeira parte não tem o código de um endereço antes de 'W' ou 'X'"
    ),
    "the second part has 'X', where only 'W' may separate seconds and fraction": (
        "a segunda parte tem 'X', mas só 'W' pode separar os segundos da fração"
    ),
    "the second part has no code of seconds in front of 'W'": (
        "a segunda parte não tem o código dos segundos antes de 'W'"
    ),
    "the second part has more than one 'W', where one stands before the fraction": (
        "a segunda parte tem mais de um 'W', mas só um deve estar antes da fração"
    ),
    "the second part has no code of a fraction behind 'W'": (
        "a segunda parte não tem o código de uma fração depois de 'W'"
    ),
}

#: Four parts that are no repository name.
_REPOSITORY_NAME = {
    "is empty": "está vazia",
    "has {}, where only letters, digits and hyphens may stand": (
        "tem {}, mas só pode ter letras, dígitos e hifens"
    ),
    "has a hyphen at an end, where a letter or digit must stand": (
        "começa ou termina com hífen, onde deve estar uma letra ou um dígito"
    ),
    "is the last one of its domain and must begin with a letter": (
        "é a última de seu domínio e deve começar com uma letra"
    ),
    "the second part ends with {}, where the digits of a port must follow": (
        "a segunda parte termina com {}, mas depois devem vir os dígitos de uma porta"
    ),
    "the port, {}, is not made of digits only": "a porta, {}, não é feita só de dígitos",
    "the year, {}, is none of 0001 to 9999, in four digits": (
        "o ano, {}, deve ser um número de 0001 a 9999, com quatro dígitos"
    ),
    "the month, {}, is none of 01 to 12, in two digits": (
        "o mês, {}, deve ser um número de 01 a 12, com dois dígitos"
    ),
    "the day, {}, is none of 01 to 31, in two digits": (
        "o dia, {}, deve ser um número de 01 a 31, com dois dígitos"
    ),
    "the hour, {}, is none of 00 to 23, in two digits": (
        "a hora, {}, deve ser um número de 00 a 23, com dois dígitos"
    ),
    "the minute, {}, is none of 00 to 59, in two digits": (
        "o minuto, {}, deve ser um número de 00 a 59, com dois dígitos"
    ),
    "the second, {}, is none of 00 to 59, in two digits": (
        "o segundo, {}, deve ser um número de 00 a 59, com dois dígitos"
    ),
    "the date ends before the day, where month.day.hour.minute is needed": (
        "a data termina antes do dia, mas deve ter a forma mês.dia.hora.minuto"
    ),
    "the date ends before the hour, where month.day.hour.minute is needed": (
        "a data termina antes da hora, mas deve ter a forma mês.dia.hora.minuto"
    ),
    "the date ends before the minute, where month.day.hour.minute is needed": (
        "a data termina antes do minuto, mas deve ter a forma mês.dia.hora.minuto"
    ),
    "the day, {}, does not exist in month {} of {}": "o dia, {}, não existe no mês {} de {}",
    "the date has too many parts, where nothing may follow the fraction": (
        "a data tem partes demais; nada pode vir depois da fração"
    ),
    "the fraction of the second, {}, is not made of digits only": (
        "a fração do segundo, {}, não é feita só de dígitos"
    ),
}

#: Well written, but the code of no address, port or date.
_ORIGIN = {
    "its port, {}, is not within 1 to 65535": "sua porta, {}, não está entre 1 e 65535",
    "{} is too long for the code of an {} address": (
        "{} é longo demais para o código de um endereço {}"
    ),
    "{} is the code of {}, which is no {} address": (
        "{} é o código de {}, que não é um endereço {}"
    ),
    "{} is the code of no port within 1 to 65535": (
        "{} não é o código de uma porta entre 1 e 65535"
    ),
    "{} with port {} is written {}, not {}": "{} com a porta {} se escreve {}, e não {}",
    "POSIX second {} is not within the years 0001 to 9999": (
        "o segundo POSIX {} fica fora dos anos 0001 a 9999"
    ),
    "its date is written {}, not {}": "sua data se escreve {}, e não {}",
    "date of more than 60 digits has no exact decimal text of {} digits or fewer; a fraction of a second "
    "is a number of tenths, hundredths and so on": (
        "a data, de mais de 60 dígitos, não tem um texto decimal exato de no máximo {} dígitos; uma fração "
        "de segundo é um número de décimos, centésimos e assim por diante"
    ),
}

#: The reasons themselves; each is the end of what is said.
REASONS: dict[str, str] = {**_URL, **_IDENTIFIER, **_IBIP, **_REPOSITORY_NAME, **_ORIGIN}
