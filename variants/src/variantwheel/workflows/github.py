"""A workflow for GitHub Actions: build, check, test, index and release all variants."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from variantwheel.ci_settings import python_version
from variantwheel.errors import DefinitionError
from variantwheel.matrix import MatrixJob, matrix_jobs
from variantwheel.project import Project
from variantwheel.workflows.yaml_text import YamlValue, render_yaml
from variantwheel_selector.wheel_name import escape_project

_HEADER = "# Written by `variantwheel workflow github`; change the definitions instead.\n"
_CHECKOUT = "actions/checkout@v5"
_PYTHON = "actions/setup-python@v6"
_UPLOAD = "actions/upload-artifact@v4"
_DOWNLOAD = "actions/download-artifact@v5"
_ATTEST = "actions/attest-build-provenance@v3"
_PUBLISH = "pypa/gh-action-pypi-publish@release/v1"
_PAGES_UPLOAD = "actions/upload-pages-artifact@v4"
_PAGES_DEPLOY = "actions/deploy-pages@v4"

_MOST_JOBS = 256
"""Of one matrix in one run: https://docs.github.com/actions/reference/limits."""

_RUNNER = "ubuntu-24.04"
_EMULATOR = """\
sudo apt-get update
sudo apt-get install -y --no-install-recommends qemu-user-static
"""
_BUILD = """\
variantwheel build "$LABEL" --machine "$MACHINE" -o release
variantwheel check release/*.whl --rebuild
"""
_UPLOADABLE = """\
mkdir upload
cp release/*.tar.gz upload/
find release -name '*-none-any.whl' -exec cp {} upload/ ';'
"""
_SERVE = """\
python -m http.server --directory site --bind 127.0.0.1 8000 &
until curl --silent --fail --output /dev/null http://127.0.0.1:8000/simple/; do sleep 0.2; done
python -m venv stock
"""


def github_workflow(project: Project) -> str:
    """Write the workflow of a project.

    Raises:
        DefinitionError: GitHub would not run it, having too many jobs.
    """
    jobs = matrix_jobs(project.definitions)
    _check_size("interpreters", project.ci.interpreters, jobs)
    _check_size("test-interpreters", project.ci.test_interpreters, jobs)
    return _HEADER + render_yaml(
        {
            "name": "variants",
            "on": {
                "push": {"branches": ["main"], "tags": ["v*"]},
                "pull_request": {},
                "workflow_dispatch": {},
            },
            "permissions": {"contents": "read"},
            "concurrency": {
                "group": "variants-${{ github.ref }}",
                "cancel-in-progress": "${{ !startsWith(github.ref, 'refs/tags/') }}",
            },
            "defaults": {"run": {"shell": "bash"}},
            "jobs": {
                "build": _build_job(project, jobs),
                "test": _test_job(project, jobs),
                "index": _index_job(project),
                "install": _install_job(project, jobs),
                "release": _release_job(),
                "pages": _pages_job(),
            },
        }
    )


def _build_job(project: Project, jobs: Sequence[MatrixJob]) -> YamlValue:
    name = "wheel-${{ matrix.variant.label }}-${{ matrix.variant.machine }}-${{ matrix.python }}"
    return {
        "name": "build ${{ matrix.variant.label }} ${{ matrix.variant.machine }}",
        "runs-on": "${{ matrix.variant.runner }}",
        "timeout-minutes": 60,
        "strategy": _strategy(jobs, project.ci.interpreters),
        "steps": [
            {"uses": _CHECKOUT, "with": {"fetch-depth": 0, "persist-credentials": False}},
            # Modules are built for all that are there; the last one is the one that builds.
            _python_step("\n".join([*other_pythons(project), "${{ matrix.python }}"])),
            _toolkit_step(project),
            {"name": "Build and check", "env": _variant_environment(), "run": _BUILD},
            _upload_step(name, "release/*.whl"),
        ],
    }


def _test_job(project: Project, jobs: Sequence[MatrixJob]) -> YamlValue:
    pattern = "wheel-${{ matrix.variant.label }}-${{ matrix.variant.machine }}-*"
    run = f'{run_command(project)} release/{_wheel_of(project)}-*-"$LABEL".whl\n'
    return {
        "name": "test ${{ matrix.variant.label }} ${{ matrix.variant.machine }} "
        "${{ matrix.python }}",
        "needs": "build",
        "runs-on": "${{ matrix.variant.runner }}",
        "timeout-minutes": 60,
        "strategy": _strategy(jobs, project.ci.test_interpreters),
        "steps": [
            {"uses": _CHECKOUT, "with": {"persist-credentials": False}},
            _python_step("${{ matrix.python }}"),
            _toolkit_step(project),
            {
                "name": "Install the emulator",
                "if": "matrix.variant.emulate",
                "run": _EMULATOR,
            },
            *_extra_wheels_step(project),
            _download_step(pattern, "release"),
            {"name": "Run", "env": _variant_environment(), "run": run},
        ],
    }


def _index_job(project: Project) -> YamlValue:
    return {
        "name": "selector sdist and index",
        "needs": "build",
        "runs-on": _RUNNER,
        "timeout-minutes": 30,
        "steps": [
            {"uses": _CHECKOUT, "with": {"fetch-depth": 0, "persist-credentials": False}},
            _python_step(python_version(project.ci.interpreters[0])),
            _toolkit_step(project),
            _download_step("wheel-*", "release"),
            *_extra_wheels_step(project),
            {
                "name": "Check all wheels together",
                "run": f"variantwheel check release/{_wheel_of(project)}-*.whl\n",
            },
            {
                "name": "Make the selector sdist and the index",
                "run": "variantwheel sdist release --dry-run\n"
                "variantwheel sdist release -o release\n"
                "variantwheel index release -o site\n",
            },
            _upload_step("release", "release"),
            _upload_step("site", "site"),
        ],
    }


def _install_job(project: Project, jobs: Sequence[MatrixJob]) -> YamlValue:
    command, index = "stock/bin/python -m pip install", "http://127.0.0.1:8000/simple/"
    install = [
        f"{command} --no-deps --index-url {index} {project.name}",
        # The site does not hold what other projects publish and this one requires.
        f"{command} --extra-index-url {index} {project.name}",
    ]
    runners = list(dict.fromkeys(job.platform.runner for job in jobs))
    return {
        "name": "install by stock pip on ${{ matrix.runner }}",
        "needs": "index",
        "runs-on": "${{ matrix.runner }}",
        "timeout-minutes": 30,
        "strategy": {"fail-fast": False, "matrix": {"runner": runners}},
        "steps": [
            _python_step(python_version(project.ci.test_interpreters[-1])),
            _download_step("site", "site"),
            {"name": "Install", "run": _SERVE + "".join(f"{line}\n" for line in install)},
        ],
    }


def _release_job() -> YamlValue:
    return {
        "name": "release",
        "if": "startsWith(github.ref, 'refs/tags/v')",
        "needs": ["test", "index", "install"],
        "runs-on": _RUNNER,
        "timeout-minutes": 30,
        "environment": "pypi",
        "permissions": {
            "contents": "read",
            "id-token": "write",
            "attestations": "write",
        },
        "steps": [
            _download_step("release", "release"),
            {"uses": _ATTEST, "with": {"subject-path": "release/*"}},
            # Labelled wheels are refused by PyPI; the selector sdist carries them.
            {"name": "Choose what the public index accepts", "run": _UPLOADABLE},
            {"uses": _PUBLISH, "with": {"packages-dir": "upload", "attestations": True}},
        ],
    }


def _pages_job() -> YamlValue:
    return {
        "name": "publish the index with the labelled wheels",
        "if": "startsWith(github.ref, 'refs/tags/v')",
        "needs": "release",
        "runs-on": _RUNNER,
        "timeout-minutes": 30,
        "permissions": {"pages": "write", "id-token": "write"},
        "environment": "github-pages",
        "steps": [
            _download_step("site", "site"),
            {"uses": _PAGES_UPLOAD, "with": {"path": "site"}},
            {"uses": _PAGES_DEPLOY},
        ],
    }


def _check_size(key: str, interpreters: Sequence[str], jobs: Sequence[MatrixJob]) -> None:
    count = len(interpreters) * len(jobs)
    if count > _MOST_JOBS:
        raise DefinitionError(
            f"[tool.variantwheel.ci] {key}: {len(interpreters)} Pythons for {len(jobs)} variants "
            f"and machines are {count} jobs, and GitHub runs a matrix of {_MOST_JOBS} at most; "
            "name fewer Pythons, or build one wheel for all by [tool.variantwheel.pythons]"
        )


def _strategy(jobs: Sequence[MatrixJob], interpreters: Sequence[str]) -> YamlValue:
    variants: list[YamlValue] = [
        {
            "label": job.definition.label,
            "machine": job.platform.machine,
            "runner": job.platform.runner,
            "emulate": bool(job.platform.emulation.runs or job.platform.emulation.falls_back),
        }
        for job in jobs
    ]
    versions = [python_version(name) for name in interpreters]
    return {"fail-fast": False, "matrix": {"python": versions, "variant": variants}}


def _variant_environment() -> YamlValue:
    return {"LABEL": "${{ matrix.variant.label }}", "MACHINE": "${{ matrix.variant.machine }}"}


def run_command(project: Project) -> str:
    """Return the command that tries wheels, those of other CPythons left out.

    A job in which that leaves out all of them has proven nothing, and fails.
    """
    must_run = " --must-run" if project.check.command else ""
    return f"variantwheel check --run{must_run} --emulate"


def other_pythons(project: Project) -> tuple[str, ...]:
    """Return the versions of the CPythons that each wheel carries modules for."""
    return (*project.pythons.versions, *project.pythons.optional)


def _python_step(version: str) -> YamlValue:
    return {"uses": _PYTHON, "with": {"python-version": version}}


def _toolkit_step(project: Project) -> YamlValue:
    return {
        "name": "Install variantwheel",
        "run": f"python -m pip install {shlex.join(project.ci.toolkit)}",
    }


def _extra_wheels_step(project: Project) -> list[YamlValue]:
    if not project.ci.extra_wheels:
        return []
    command = f"python -m pip wheel --no-deps -w release {shlex.join(project.ci.extra_wheels)}"
    return [{"name": "Build the wheels that are released beside", "run": command}]


def _upload_step(name: str, path: str) -> YamlValue:
    return {"uses": _UPLOAD, "with": {"name": name, "path": path, "if-no-files-found": "error"}}


def _download_step(pattern: str, path: str) -> YamlValue:
    return {
        "uses": _DOWNLOAD,
        "with": {"pattern": pattern, "path": path, "merge-multiple": True},
    }


def _wheel_of(project: Project) -> str:
    return escape_project(project.name)
