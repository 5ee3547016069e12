"""How property tests are run: the same examples on every machine by default, other ones each time under `fuzz`.

`tests/conftest.py` loads the profile `same`; `make fuzz` asks for `fuzz`. A test that wants more or fewer examples than
the profile says so with `examples`, and obeys `fuzz` all the same.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SAME, FUZZ = "same", "fuzz"
QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]  # fixtures that examples share are folders

settings.register_profile(
    SAME, derandomize=True, deadline=None, database=None, print_blob=False, suppress_health_check=QUIET
)
settings.register_profile(
    FUZZ, derandomize=False, max_examples=2000, deadline=None, print_blob=True, suppress_health_check=QUIET
)


# Hypothesis also tries numbers and strings of the package's sources that happen to be imported by then, so that its
# examples would be others in every order of tests, and after every change of a constant. It has no setting for that.
_constants_of_sources = providers._get_local_constants


def _local_constants() -> providers.Constants:
    fuzzes = settings.get_current_profile_name() == FUZZ
    return _constants_of_sources() if fuzzes else providers.Constants()


providers._get_local_constants = _local_constants


def examples(count: int) -> settings:
    """Return settings with so many examples, or with as many as `fuzz` tries."""
    if settings.get_current_profile_name() == FUZZ:
        return settings()
    return settings(max_examples=count)
