"""Settings for the whole suite."""

import pytest
from hypothesis import settings

# Fixed examples: a run that fails fails again. `pytest --hypothesis-seed=random` looks for new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write golden bytes anew: for formats that are new")


@pytest.fixture
def write_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--write-golden"))
