"""Translates language codes into the names of languages, in Portuguese and English."""

from __future__ import annotations

#: The Portuguese and English names of languages by ISO 639-1 code. The Portuguese names are the
#: names that are usual in Brazil.
_LANGUAGES = {
    "af": ("africâner", "Afrikaans"),
    "ar": ("árabe", "Arabic"),
    "ay": ("aimará", "Aymara"),
    "be": ("bielorrusso", "Belarusian"),
    "bg": ("búlgaro", "Bulgarian"),
    "bn": ("bengali", "Bengali"),
    "bs": ("bósnio", "Bosnian"),
    "ca": ("catalão", "Catalan"),
    "cs": ("tcheco", "Czech"),
    "cy": ("galês", "Welsh"),
    "da": ("dinamarquês", "Danish"),
    "de": ("alemão", "German"),
    "el": ("grego", "Greek"),
    "en": ("inglês", "English"),
    "eo": ("esperanto", "Esperanto"),
    "es": ("espanhol", "Spanish"),
    "et": ("estoniano", "Estonian"),
    "eu": ("basco", "Basque"),
    "fa": ("persa", "Persian"),
    "fi": ("finlandês", "Finnish"),
    "fr": ("francês", "French"),
    "ga": ("irlandês", "Irish"),
    "gl": ("galego", "Galician"),
    "gn": ("guarani", "Guarani"),
    "he": ("hebraico", "Hebrew"),
    "hi": ("híndi", "Hindi"),
    "hr": ("croata", "Croatian"),
    "hu": ("húngaro", "Hungarian"),
    "hy": ("armênio", "Armenian"),
    "id": ("indonésio", "Indonesian"),
    "is": ("islandês", "Icelandic"),
    "it": ("italiano", "Italian"),
    "ja": ("japonês", "Japanese"),
    "ka": ("georgiano", "Georgian"),
    "kk": ("cazaque", "Kazakh"),
    "km": ("khmer", "Khmer"),
    "ko": ("coreano", "Korean"),
    "la": ("latim", "Latin"),
    "lt": ("lituano", "Lithuanian"),
    "lv": ("letão", "Latvian"),
    "mk": ("macedônio", "Macedonian"),
    "mn": ("mongol", "Mongolian"),
    "ms": ("malaio", "Malay"),
    "ne": ("nepalês", "Nepali"),
    "nl": ("holandês", "Dutch"),
    "no": ("norueguês", "Norwegian"),
    "pl": ("polonês", "Polish"),
    "pt": ("português", "Portuguese"),
    "qu": ("quíchua", "Quechua"),
    "ro": ("romeno", "Romanian"),
    "ru": ("russo", "Russian"),
    "sk": ("eslovaco", "Slovak"),
    "sl": ("esloveno", "Slovenian"),
    "sq": ("albanês", "Albanian"),
    "sr": ("sérvio", "Serbian"),
    "sv": ("sueco", "Swedish"),
    "sw": ("suaíli", "Swahili"),
    "ta": ("tâmil", "Tamil"),
    "th": ("tailandês", "Thai"),
    "tr": ("turco", "Turkish"),
    "uk": ("ucraniano", "Ukrainian"),
    "ur": ("urdu", "Urdu"),
    "vi": ("vietnamita", "Vietnamese"),
    "zh": ("chinês", "Chinese"),
}

#: The Portuguese and English names of countries by ISO 3166-1 code.
_COUNTRIES = {
    "AO": ("Angola", "Angola"),
    "AR": ("Argentina", "Argentina"),
    "AT": ("Áustria", "Austria"),
    "AU": ("Austrália", "Australia"),
    "BR": ("Brasil", "Brazil"),
    "CA": ("Canadá", "Canada"),
    "CH": ("Suíça", "Switzerland"),
    "CL": ("Chile", "Chile"),
    "CN": ("China", "China"),
    "CO": ("Colômbia", "Colombia"),
    "CV": ("Cabo Verde", "Cape Verde"),
    "DE": ("Alemanha", "Germany"),
    "ES": ("Espanha", "Spain"),
    "FR": ("França", "France"),
    "GB": ("Reino Unido", "United Kingdom"),
    "MX": ("México", "Mexico"),
    "MZ": ("Moçambique", "Mozambique"),
    "PE": ("Peru", "Peru"),
    "PT": ("Portugal", "Portugal"),
    "PY": ("Paraguai", "Paraguay"),
    "TW": ("Taiwan", "Taiwan"),
    "US": ("Estados Unidos", "United States"),
    "UY": ("Uruguai", "Uruguay"),
}


def get_language_name(code: str, page_language: str) -> str:
    """Return the name of a language, such as ``português (Brasil)``.

    :param code: the code of the language, in the form ``xx`` or ``xx-YY``.
    :param page_language: the language of the name, ``pt`` or ``en``.
    :returns: the code if the name of the language is unknown.
    """
    column = 0 if page_language == "pt" else 1
    language, _, country = code.partition("-")
    if language not in _LANGUAGES:
        return code
    name = _LANGUAGES[language][column]
    if not country:
        return name
    return f"{name} ({_COUNTRIES[country][column] if country in _COUNTRIES else country})"
