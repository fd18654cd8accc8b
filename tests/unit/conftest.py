"""How Hypothesis draws the examples of the unit tests."""

from hypothesis import settings

# The same examples each time, so that a run says something about what was changed; `./dev fuzz`
# looks for others. And without a deadline: how long an example takes says more about what else the
# machine does than about the code.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
