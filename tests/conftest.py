"""Rules for the whole suite: a minimum count, and no skips where everything is said to be there."""

import os
import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--at-least", type=int, default=0, help="fail when fewer tests than this have passed"
    )


# A skip may say only that hardware, or the right to make networks, is absent; CI installs
# everything else.
ALLOWED_SKIP_REASONS = (
    "no GPU", "no AVX2", "captures are not beside this checkout", "no network namespaces", "no TAP"
)  # fmt: skip


class _Count:
    def __init__(self) -> None:
        self.passed = 0
        self.unexpected_skips: list[str] = []
        self.ungrouped = 0

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed += 1
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = (
                report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            )
            if not any(allowed in reason for allowed in ALLOWED_SKIP_REASONS):
                self.unexpected_skips.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.ungrouped = sum("@" not in each for each in ids)


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control has its background jobs ignore Ctrl-C, and nohup the end of the
    # terminal, and so would all programs that the tests start.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.pluginmanager.register(_Count(), "count")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups, which it does but once
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `-n`, keep the tests of a file in one process, unless a folder's rules say which."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # With pytest-xdist, the process that started the others hears of all their tests.
    if exitstatus != pytest.ExitCode.OK or hasattr(session.config, "workerinput"):
        return
    count = session.config.pluginmanager.get_plugin("count")
    assert isinstance(count, _Count)
    wanted = session.config.getoption("--at-least")
    problems = []
    if count.passed < wanted:
        problems.append(f"{count.passed} tests passed, at least {wanted} were expected")
    if session.config.getoption("dist", "no") == "loadgroup" and count.ungrouped:
        # Each process would then make whatever takes long: wheels, and launches of ranks.
        problems.append(f"pytest-xdist took note of no group for {count.ungrouped} tests")
    if os.environ.get("HVD_TESTS_NO_SKIP") == "1":
        problems += [f"skipped where nothing may be: {skip}" for skip in count.unexpected_skips]
    if problems:
        print("\n" + "\n".join(problems))  # noqa: T201 - shown beside pytest's own summary
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
