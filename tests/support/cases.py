"""A decorator that runs a test for many cases, but as one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def for_each(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each case, like ``pytest.mark.parametrize``, but as one test.

    All cases run even if one case fails. The assertion message contains each failed case with its
    error. The fixtures of the test are created once for all cases.

    :param names: the name of the parameter, or several names.
    :param cases: for each case, the value of the parameter, or a tuple of values.
    """
    parameters = (names,) if isinstance(names, str) else tuple(names)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[tuple[object, Exception]] = []
            for case in cases:
                values = (case,) if isinstance(names, str) else tuple(case)
                try:
                    test(**dict(zip(parameters, values, strict=True)), **fixtures)
                except Exception as error:  # noqa: BLE001
                    failures.append((case, error))
            if failures:
                texts = [
                    f"{ascii(case)[:200]}: {type(error).__name__}: {str(error)[:500]}"
                    for case, error in failures
                ]
                raise AssertionError("failing cases:\n" + "\n".join(texts)) from failures[0][1]

        signature = inspect.signature(test)
        rest = [one for name, one in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorate
