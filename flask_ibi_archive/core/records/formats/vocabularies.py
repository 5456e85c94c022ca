"""The vocabularies that harvesters share: types, access, versions and languages.

Sources: COAR Controlled Vocabularies (https://vocabularies.coar-repositories.org), info:eu-repo
(https://wiki.surfnet.nl/display/standards/info-eu-repo), DCMI Type Vocabulary, ISO 639-3.
"""

from __future__ import annotations

from typing import NamedTuple

from flask_ibi_archive.core.records.description import AccessRight, WorkType
from flask_ibi_archive.core.records.work import Work

SEMANTICS = "info:eu-repo/semantics/"
_DCMI_TYPE = "http://purl.org/dc/dcmitype/"
_COAR = "http://purl.org/coar/"


class TypeTerms(NamedTuple):
    """The terms for a type.

    :param label: the label of the COAR resource type.
    :param term: the term of info:eu-repo, or of the DCMI Type Vocabulary if there is none; or None.
    """

    code: str
    label: str
    term: str | None

    @property
    def uri(self) -> str:
        """The URI of the COAR resource type."""
        return f"{_COAR}resource_type/{self.code}"


_OTHER = TypeTerms("c_1843", "other", None)
_TYPES = {
    WorkType.ARTICLE: TypeTerms("c_6501", "journal article", f"{SEMANTICS}article"),
    WorkType.BACHELOR_THESIS: TypeTerms("c_7a1f", "bachelor thesis", f"{SEMANTICS}bachelorThesis"),
    WorkType.BOOK: TypeTerms("c_2f33", "book", f"{SEMANTICS}book"),
    WorkType.CHAPTER: TypeTerms("c_3248", "book part", f"{SEMANTICS}bookPart"),
    WorkType.COLLECTION: TypeTerms("c_1843", "other", f"{_DCMI_TYPE}Collection"),
    WorkType.CONFERENCE_PAPER: TypeTerms(
        "c_5794", "conference paper", f"{SEMANTICS}conferenceObject"
    ),
    WorkType.DATASET: TypeTerms("c_ddb1", "dataset", f"{_DCMI_TYPE}Dataset"),
    WorkType.DOCTORAL_THESIS: TypeTerms("c_db06", "doctoral thesis", f"{SEMANTICS}doctoralThesis"),
    WorkType.IMAGE: TypeTerms("c_c513", "image", f"{_DCMI_TYPE}StillImage"),
    WorkType.LECTURE: TypeTerms("c_8544", "lecture", f"{SEMANTICS}lecture"),
    WorkType.MAP: TypeTerms("c_12cd", "map", f"{_DCMI_TYPE}StillImage"),
    WorkType.MASTER_THESIS: TypeTerms("c_bdcc", "master thesis", f"{SEMANTICS}masterThesis"),
    WorkType.MUSIC: TypeTerms("c_18cd", "musical composition", None),
    WorkType.PATENT: TypeTerms("c_15cd", "patent", f"{SEMANTICS}patent"),
    WorkType.POSTER: TypeTerms("c_6670", "conference poster", f"{SEMANTICS}conferenceObject"),
    WorkType.PREPRINT: TypeTerms("c_816b", "preprint", f"{SEMANTICS}preprint"),
    WorkType.PROCEEDINGS: TypeTerms("c_f744", "conference proceedings", None),
    WorkType.REPORT: TypeTerms("c_93fc", "report", f"{SEMANTICS}report"),
    WorkType.REVIEW: TypeTerms("c_efa0", "review", f"{SEMANTICS}review"),
    WorkType.SOFTWARE: TypeTerms("c_5ce6", "software", f"{_DCMI_TYPE}Software"),
    WorkType.SOUND: TypeTerms("c_18cc", "sound", f"{_DCMI_TYPE}Sound"),
    WorkType.TEXT: TypeTerms("c_18cf", "text", f"{_DCMI_TYPE}Text"),
    WorkType.THESIS: TypeTerms("c_46ec", "thesis", None),
    WorkType.VIDEO: TypeTerms("c_12ce", "video", f"{_DCMI_TYPE}MovingImage"),
}


def find_type_terms(type: WorkType) -> TypeTerms:
    """Return the terms for a type; the most general ones if there are no better terms."""
    return _TYPES.get(type, _OTHER)


class Term(NamedTuple):
    """A term of info:eu-repo and of COAR.

    :param term: the URI of the term of info:eu-repo.
    :param label: the label of the COAR term.
    :param uri: the URI of the COAR term.
    """

    term: str
    label: str
    uri: str


METADATA_ONLY = Term(
    f"{SEMANTICS}closedAccess", "metadata only access", f"{_COAR}access_right/c_14cb"
)
_ACCESS: dict[AccessRight, Term] = {
    "open": Term(f"{SEMANTICS}openAccess", "open access", f"{_COAR}access_right/c_abf2"),
    "embargoed": Term(
        f"{SEMANTICS}embargoedAccess", "embargoed access", f"{_COAR}access_right/c_f1cf"
    ),
    "restricted": Term(
        f"{SEMANTICS}restrictedAccess", "restricted access", f"{_COAR}access_right/c_16ec"
    ),
    "metadata only": METADATA_ONLY,
}


def find_access(work: Work) -> Term | None:
    """Return the term for who may read the files; None if this is unknown.

    What the Archive does is preferred to what the description states.
    """
    access = work.access or work.access_right
    return _ACCESS[access] if access else None


_VERSIONS = {
    Term(f"{SEMANTICS}{name}", label, f"{_COAR}version/{code}"): words
    for name, label, code, words in (
        ("draft", "AO", "c_b1a7d7d4d402bcce", "draft ao"),
        ("submittedVersion", "SMUR", "c_71e4c1898caa6e32", "submittedversion submitted smur"),
        ("acceptedVersion", "AM", "c_ab4af688f83e57aa", "acceptedversion accepted am"),
        ("publishedVersion", "VoR", "c_970fb48d4fbd8a85", "publishedversion published vor"),
        ("updatedVersion", "EVoR", "c_dc82b40f9837b551", "updatedversion updated evor"),
    )
}


def find_version(work: Work) -> Term | None:
    """Return the term for the stage of publication, such as ``acceptedVersion``.

    The version of a description may state the stage. It may also be the number of a version of
    software or the edition of a book; then the result is None.
    """
    word = (work.version or "").removeprefix(SEMANTICS).replace(" ", "").lower()
    return next((term for term, words in _VERSIONS.items() if word in words.split()), None)


#: The codes of ISO 639-1 and of ISO 639-3 of the same languages.
_PAIRS = """
    aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak
    be:bel bg:bul bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre
    cs:ces cu:chu cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa
    et:est eu:eus fa:fas ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn
    gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina id:ind
    ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik
    kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat
    lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal
    mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde ne:nep ng:ndo nl:nld nn:nno no:nor
    nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol ps:pus pt:por
    qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag sh:hbs si:sin
    sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam
    te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah
    ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha
    zh:zho zu:zul
"""
_CODES = dict(pair.split(":") for pair in _PAIRS.split())


def find_language_code(tag: str) -> str:
    """Return the code of ISO 639-3 of a language tag, such as ``por`` for ``pt-BR``.

    :returns: the text itself if it is no language tag with a code of ISO 639-1.
    """
    return _CODES.get(tag.strip().replace("_", "-").partition("-")[0].lower(), tag)
