"""PEP 517 builds of one project, in isolated environments, with their output in a log file."""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from build import (
    BuildBackendException,
    BuildException,
    DistributionType,
    ProjectBuilder,
    RunnerType,
    check_dependency,
)

from variantwheel.build_environment import BuildEnvironments
from variantwheel.build_programs import BuildPrograms
from variantwheel.errors import BuildFailedError

_TAIL_LINES = 30
# What a process needs to run at all; everything else could change a backend's answer.
_NEUTRAL_VARIABLES = ("HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")


@dataclass(frozen=True)
class BuildRequest:
    """One call of a build backend.

    Attributes:
        distribution: `wheel` or `sdist`.
        source: The project's folder.
        output: Where the result goes.
        log: What the backend prints goes to this file.
        config_settings: For the backend.
        environment: Variables added to the environment.
        requires: Requirements beside the project's own.
        tools: Names what may be installed beside them; requests of the same name share an
            environment. Nothing for one of these requirements alone.
    """

    distribution: DistributionType
    source: Path
    output: Path
    log: Path
    config_settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    requires: Sequence[str] = ()
    tools: str = ""


class BuildFrontend:
    """Calls build backends in their environments; see `open_frontend`."""

    def __init__(self, environments: BuildEnvironments | None, programs: BuildPrograms) -> None:
        self._environments = environments
        self._programs = programs

    def stop(self) -> None:
        """End the builds that are running, in whatever threads; no other begins."""
        self._programs.stop()

    def build(self, request: BuildRequest, variables: Mapping[str, str] | None = None) -> Path:
        """Build a wheel or sdist.

        Args:
            request: What to build.
            variables: Environment that has no influence on the result.

        Returns:
            The file.

        Raises:
            BuildFailedError: It did not succeed; the text ends with the end of the log.
        """
        facts = (
            f"  config settings: {_words(request.config_settings)}\n"
            f"  environment: {_words(request.environment)}\n"
        )
        with _logged(request.log, f"the {request.distribution} was not built", facts) as log:
            inherited = {**os.environ, **(variables or {})}
            return self._build(request, self._runner(log, inherited, request.environment))

    def wheel_requirements(self, source: Path, log: Path) -> tuple[str, ...]:
        """Ask the backend what a wheel needs on a machine that has no tools at all.

        Backends leave out a requirement, such as CMake, that they find on the machine. Here they
        find nothing: PATH names an empty folder, and no variable of the user's is passed on.

        Args:
            source: The unpacked sdist.
            log: What the backend prints goes to this file.

        Returns:
            What `get_requires_for_build_wheel` returns, sorted.

        Raises:
            BuildFailedError: The backend did not answer.
        """
        what = "the build backend did not say what a wheel needs (get_requires_for_build_wheel)"
        with _logged(log, what, "") as descriptor, tempfile.TemporaryDirectory() as empty:
            variables = {
                name: os.environ[name] for name in _NEUTRAL_VARIABLES if name in os.environ
            }
            runner = self._runner(descriptor, variables, {"PATH": empty})
            builder = ProjectBuilder(source, runner=runner)
            if self._environments is not None:
                isolated = self._environments.with_requirements(builder.build_system_requires)
                builder = ProjectBuilder.from_isolated_env(isolated, source, runner)
            return tuple(sorted(builder.get_requires_for_build("wheel", {})))

    def _build(self, request: BuildRequest, runner: RunnerType) -> Path:
        settings = dict(request.config_settings)
        builder = ProjectBuilder(request.source, runner=runner)
        fixed = builder.build_system_requires | set(request.requires)
        if self._environments is None:
            # The fixed ones first: without them there may be no backend to ask for more.
            missing = {chain for item in fixed for chain in check_dependency(item)}
            missing = missing or builder.check_dependencies(request.distribution, settings)
            if missing:
                names = ", ".join(sorted(chain[-1] for chain in missing))
                raise BuildException(
                    f"with --no-isolation this environment has to hold what the build needs; "
                    f"missing: {names}"
                )
        else:
            isolated = self._environments.with_requirements(fixed, request.tools)
            builder = ProjectBuilder.from_isolated_env(isolated, request.source, runner)
            asked = builder.get_requires_for_build(request.distribution, settings)
            isolated = self._environments.with_more(fixed, asked, request.tools)
            builder = ProjectBuilder.from_isolated_env(isolated, request.source, runner)
        return Path(builder.build(request.distribution, request.output, settings))

    def _runner(
        self, log: int, inherited: Mapping[str, str], environment: Mapping[str, str]
    ) -> RunnerType:
        def run(
            cmd: Sequence[str],
            cwd: str | None = None,
            extra_environ: Mapping[str, str] | None = None,
        ) -> None:
            variables = {**inherited, **(extra_environ or {}), **environment}
            exit_code = self._programs.run(cmd, log, variables, cwd)
            if exit_code != 0:
                raise subprocess.CalledProcessError(exit_code, cmd)

        return run


@contextmanager
def open_frontend(folder: Path, *, isolated: bool) -> Iterator[BuildFrontend]:
    """Get ready for a project's builds.

    Args:
        folder: Where isolated environments lie; they are made when they are missing.
        isolated: Otherwise the environment of this process is used.
    """
    with _build_messages_to(folder.parent / "build.log"):
        programs = BuildPrograms()
        environments = BuildEnvironments(folder, programs) if isolated else None
        yield BuildFrontend(environments, programs)


@contextmanager
def _logged(log: Path, failure: str, facts: str) -> Iterator[int]:
    """Open a log file and word what goes wrong while it is open.

    Args:
        log: The file.
        failure: What did not succeed.
        facts: Whole lines, for the error.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        try:
            yield file.fileno()
        except (
            BuildException,
            BuildBackendException,
            subprocess.CalledProcessError,
        ) as error:
            raise BuildFailedError(
                f"{failure}: {error}\n{facts}  the end of {log}:\n{_tail(log)}"
            ) from error


@contextmanager
def _build_messages_to(log: Path) -> Iterator[None]:
    """Send what the `build` library itself reports to a log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, mode="w", encoding="utf-8")
    logger = logging.getLogger("build")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        handler.close()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:]) or "  | (empty)"


def _words(mapping: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in mapping.items()) or "none"
