"""Settings for the whole suite."""

from hypothesis import settings

# Fixed examples: a run that fails fails again. `pytest --hypothesis-seed=random` looks for new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")
