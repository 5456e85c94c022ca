"""The answers agree with the description of the interface, for random requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from flask import Flask
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from .conftest import Program


@pytest.mark.slow
def test_answers_agree_with_the_description(
    served_app: Flask, new_program: Callable[..., Program]
) -> None:
    """Send random requests, right and wrong ones, and compare the answers with the description.

    A request that fits the description may be refused: a schema cannot say which languages exist.
    A request that is only wrong because it has no key is answered, because it gets one here.
    """
    import schemathesis

    program = new_program(may="mint,deposit,all")
    existing = program("POST", json={"record": {}}).json["identifiers"][0]["ibip"]
    reserved = program("POST", json={"reserve": True}).json["identifiers"][0]["ibip"]
    schema = schemathesis.openapi.from_wsgi("/ibi/identifiers/openapi.json", served_app)
    operations = [operation.ok() for operation in schema.get_all_operations()]
    requests = st.one_of(
        [
            operation.as_strategy(generation_mode=mode)
            for operation in operations
            for mode in schemathesis.GenerationMode
        ]
    )

    @settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=requests, ibi=st.sampled_from([None, existing, reserved]))
    def send(case: Any, ibi: str | None) -> None:
        path = case.path_parameters.get("ibi", "")
        assume("\n" not in unquote(path))  # Flask answers such a path itself
        if ibi is not None and "ibi" in case.path_parameters:
            case.path_parameters["ibi"] = ibi
        case.call_and_validate(
            headers={"Authorization": f"Bearer {program.key}"},
            excluded_checks=[
                schemathesis.checks.positive_data_acceptance,
                schemathesis.checks.negative_data_rejection,
            ],
        )

    send()
