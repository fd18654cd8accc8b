"""A pipeline for GitLab CI, to be included: the same stages as the GitHub workflow."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from variantwheel.ci_settings import python_version
from variantwheel.matrix import MatrixJob, matrix_jobs
from variantwheel.project import Project
from variantwheel.workflows.github import other_pythons, run_command
from variantwheel.workflows.yaml_text import YamlValue, render_yaml
from variantwheel_selector.wheel_name import escape_project

_HEADER = (
    "# Written by `variantwheel workflow gitlab`; change the definitions instead. Include it:\n"
    "#   include: { local: ci/gitlab.yml }\n"
    "# Runners have the tags that the definitions name as `runner`, and run containers.\n"
)
_STOCK_PIP = "python -m pip install --retries 10"
_SITE = "http://127.0.0.1:8000/simple/"
_ON_TAG: YamlValue = [{"if": "$CI_COMMIT_TAG =~ /^v/"}]


def gitlab_pipeline(project: Project) -> str:
    """Write the pipeline of a project."""
    jobs = matrix_jobs(project.definitions)
    wheel = escape_project(project.name)
    toolkit = f"python -m pip install {shlex.join(project.ci.toolkit)}"
    extra = _extra_wheels(project)
    newest = f"python:{python_version(project.ci.interpreters[0])}"
    emulator = "apt-get update && apt-get install -y --no-install-recommends qemu-user-static"
    return _HEADER + render_yaml(
        {
            "stages": ["build", "test", "index", "release"],
            "variants:build": {
                "stage": "build",
                "image": "python:$PYTHON",
                "tags": ["$RUNNER"],
                "variables": {"GIT_DEPTH": "0"},
                "parallel": {"matrix": _matrix(jobs, project.ci.interpreters)},
                "script": [
                    toolkit,
                    *_install_pythons(project),
                    'variantwheel build "$LABEL" --machine "$MACHINE" -o release',
                    "variantwheel check release/*.whl --rebuild",
                ],
                "artifacts": {"paths": ["release/*.whl"]},
            },
            "variants:test": {
                "stage": "test",
                "image": "python:$PYTHON",
                "tags": ["$RUNNER"],
                "needs": ["variants:build"],
                "parallel": {"matrix": _matrix(jobs, project.ci.test_interpreters)},
                "script": [
                    toolkit,
                    emulator,
                    *extra,
                    f'{run_command(project)} release/{wheel}-*-"$LABEL".whl',
                ],
            },
            "variants:index": {
                "stage": "index",
                "image": newest,
                "needs": ["variants:build"],
                "variables": {"GIT_DEPTH": "0"},
                "script": [
                    toolkit,
                    *extra,
                    f"variantwheel check release/{wheel}-*.whl",
                    "variantwheel sdist release --dry-run",
                    "variantwheel sdist release -o release",
                    "variantwheel index release -o site",
                ],
                "artifacts": {"paths": ["release", "site"]},
            },
            "variants:install": {
                "stage": "index",
                "image": newest,
                "needs": ["variants:index"],
                "script": [
                    "python -m http.server --directory site --bind 127.0.0.1 8000 &",
                    f"{_STOCK_PIP} --no-deps --index-url {_SITE} {project.name}",
                    # The site does not hold what other projects publish and this one requires.
                    f"{_STOCK_PIP} --extra-index-url {_SITE} {project.name}",
                ],
            },
            "variants:release": {
                "stage": "release",
                "image": newest,
                "needs": ["variants:test", "variants:index", "variants:install"],
                "rules": _ON_TAG,
                "environment": "release",
                "id_tokens": {
                    "PYPI_ID_TOKEN": {"aud": "pypi"},
                    "SIGSTORE_ID_TOKEN": {"aud": "sigstore"},
                },
                "script": [
                    "python -m pip install 'twine>=6.1' pypi-attestations",
                    # Labelled wheels are refused by PyPI; the selector sdist carries them.
                    "mkdir upload && cp release/*.tar.gz upload/",
                    "find release -name '*-none-any.whl' -exec cp {} upload/ ';'",
                    "python -m pypi_attestations sign upload/*",
                    "python -m twine upload --attestations upload/*",
                ],
            },
            "pages": {
                "stage": "release",
                "image": newest,
                "needs": ["variants:release", "variants:index"],
                "rules": _ON_TAG,
                "script": ["mv site public"],
                "artifacts": {"paths": ["public"]},
            },
        }
    )


def gitlab_matrix(jobs: Sequence[MatrixJob]) -> dict[str, object]:
    """Return the matrix for a job of one's own: what stands under `parallel`."""
    return {"matrix": [_variables(job) for job in jobs]}


def _matrix(jobs: Sequence[MatrixJob], interpreters: Sequence[str]) -> YamlValue:
    versions = [python_version(name) for name in interpreters]
    return [{**_variables(job), "PYTHON": versions} for job in jobs]


def _variables(job: MatrixJob) -> dict[str, YamlValue]:
    return {
        "LABEL": job.definition.label,
        "MACHINE": job.platform.machine,
        "RUNNER": job.platform.runner,
    }


def _install_pythons(project: Project) -> list[str]:
    versions = other_pythons(project)
    if not versions:
        return []
    return [
        "python -m pip install uv",
        f"uv python install {shlex.join(versions)}",
        'export PATH="$PATH:$HOME/.local/bin"',
    ]


def _extra_wheels(project: Project) -> list[str]:
    folders = shlex.join(project.ci.extra_wheels)
    return [f"python -m pip wheel --no-deps -w release {folders}"] if folders else []
