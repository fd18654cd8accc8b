"""The check that a second build of a wheel gives the same bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from variantwheel.build_plan import BuildPlan, select_jobs
from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.errors import BuildFailedError, DefinitionError
from variantwheel.interpreters import module_abis
from variantwheel.python_tags import not_for_this_python
from variantwheel.source_date import source_date_epoch
from variantwheel.variant_build import build_variants
from variantwheel.wheel_archive import WheelArchive, read_wheel

REPRODUCIBLE = "reproducible"
_MOST_FAULTS = 8


@dataclass(frozen=True)
class Rebuild:
    """How the second builds are made.

    Attributes:
        isolated: Whether in a fresh build environment.
        report: Called with lines of progress.
    """

    isolated: bool
    report: Callable[[str], None]


def check_reproducible(subject: CheckSubject, rebuild: Rebuild) -> Finding:
    """Build a wheel's variant again, from the project's present sources, and compare the files."""
    platform = subject.platform_here()
    if subject.definition is None or platform is None:
        return skip(REPRODUCIBLE, "no definition to build from")
    if reason := not_for_this_python(subject.archive.name):
        return skip(REPRODUCIBLE, reason)
    project = subject.project
    try:
        jobs, _ = select_jobs(project, [subject.definition.label], [platform.machine])
    except DefinitionError as error:
        return skip(REPRODUCIBLE, str(error))
    epoch = source_date_epoch(project.folder)
    work = (project.folder / "build" / "variantwheel").resolve()
    headers = tuple(
        (abi, work / "headers" / abi)
        for abi in module_abis(subject.archive.files)
        if project.pythons.versions and (work / "headers" / abi).is_dir()
    )
    # Objects of the first build must not be used again, so that one needs another place. Elsewhere
    # the place is the same, because paths end up in binaries.
    incremental = project.toolchains[platform.toolchain].incremental
    with tempfile.TemporaryDirectory(prefix="variantwheel-rebuild-") as folder:
        plan = BuildPlan(
            project=project,
            jobs=jobs,
            output=Path(folder),
            work=work / "again" if incremental else work,
            environments=work / "environments",
            isolated=rebuild.isolated,
            epoch=epoch,
            cores=len(os.sched_getaffinity(0)),
            headers=headers,
            rebuild=True,
        )
        if incremental:
            shutil.rmtree(plan.work, ignore_errors=True)
        try:
            (outcome,) = build_variants(plan, rebuild.report)
        except BuildFailedError as error:
            return judge(REPRODUCIBLE, [str(error)], "")
        if outcome.wheel is None:
            return judge(REPRODUCIBLE, [f"the second build failed: {outcome.problem}"], "")
        same = outcome.wheel.read_bytes() == subject.file.read_bytes()
        faults = [] if same else list(_differences(subject.archive, read_wheel(outcome.wheel)))
        return judge(REPRODUCIBLE, faults[:_MOST_FAULTS], f"SOURCE_DATE_EPOCH={epoch}")


def _differences(first: WheelArchive, second: WheelArchive) -> Iterator[str]:
    if first.name != second.name:
        yield f"the second build is {second.name}"
    record = f"{first.dist_info}/RECORD"
    changed = False
    for path in sorted({*first.files, *second.files} - {record}):
        one, other = first.files.get(path), second.files.get(path)
        if one is None or other is None:
            yield f"{path}: only in the {'second' if one is None else 'first'} build"
        elif one != other:
            pairs = enumerate(zip(one, other, strict=False))
            place = next(
                (at for at, pair in pairs if pair[0] != pair[1]), min(len(one), len(other))
            )
            yield f"{path}: differs from byte {place} on"
        else:
            continue
        changed = True
    if not changed:
        yield (
            "the files are the same, their time stamps or the order of the archive are not; "
            "set SOURCE_DATE_EPOCH to what it was in the first build"
        )
