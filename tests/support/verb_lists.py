"""Hypothesis strategies for lists of verbs."""

from __future__ import annotations

from hypothesis import strategies as st

from flask_ibi_archive.core.protocol.relations import SHAPES, VerbList, parse_relation

STEPS = {
    "u": st.just(".lastedition"),
    "t": st.sampled_from([".translation", ".translation(pt)", ".translation(pt-BR)"]),
    "m": st.sampled_from([".metadata", ".metadata(oai_dc)", ".metadata(BibINPE)"]),
}
VERB_LISTS = st.builds(
    VerbList,
    st.sampled_from(sorted(SHAPES)).flatmap(
        lambda shape: st.tuples(*[STEPS[letter] for letter in shape]).map(
            lambda steps: parse_relation("".join(steps))
        )
    ),
    st.booleans(),
)
