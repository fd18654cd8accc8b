"""What `horovodrun --check-build` finds out, and how it says it."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from horovod._levels import level_asked_for, runs_on

GLOO_MEANS = (
    "The Gloo lines stand for the built-in MPI-free controller and CPU transports,"
    " which serve --gloo."
)


@dataclass(frozen=True)
class Trial:
    """Something that was tried out in a process of its own.

    Attributes:
        facts: what it reported; None when it failed.
        failure: why it failed; "" when it did not.
    """

    facts: Mapping[str, Any] | None
    failure: str

    @property
    def passed(self) -> bool:
        """Whether it works here."""
        return self.facts is not None


@dataclass(frozen=True)
class VariantReport:
    """What the selector says of the installed variant.

    Attributes:
        problem: why nothing is known; "" when something is.
        facts: `variantwheel_selector.verify`'s JSON; empty when nothing is known.
        label: what the installation itself says; "" where it says nothing.
    """

    problem: str
    facts: Mapping[str, Any]
    label: str = ""

    @property
    def misfit(self) -> bool:
        """Whether the installed variant is known not to fit this machine."""
        return self.facts.get("fits") is False


@dataclass(frozen=True)
class BuildReport:
    """All of it."""

    version: str
    runtime: Trial
    torch: Trial
    variant: VariantReport

    @property
    def library_misfit(self) -> bool:
        """Whether the wheel was made for a better CPU than this one."""
        facts = self.runtime.facts
        return facts is not None and not runs_on(level_asked_for(facts["levels"]), facts["cpu"])

    @property
    def exit_code(self) -> int:
        """0 when the installed build loads and fits this machine, else 1."""
        return int(not self.runtime.passed or self.variant.misfit or self.library_misfit)

    @property
    def nccl(self) -> bool:
        """Whether this build has code for GPUs, and NCCL opens here."""
        facts = self.runtime.facts
        return facts is not None and isinstance(facts.get("nccl"), int)

    @property
    def mpi(self) -> bool:
        """Whether this build has plug-ins for MPI, and an MPI opens here."""
        facts = self.runtime.facts
        return facts is not None and facts.get("mpi", {}).get("version") is not None

    def to_json(self) -> dict[str, Any]:
        """What `--check-build --json` prints."""
        return {
            "schema": 1,
            "version": self.version,
            "frameworks": {
                "tensorflow": False,
                "pytorch": self.torch.passed,
                "mxnet": False,
            },
            "controllers": {"mpi": self.mpi, "gloo": self.runtime.passed},
            "tensor_operations": {
                "nccl": self.nccl,
                "ddl": False,
                "ccl": False,
                "mpi": self.mpi,
                "gloo": self.runtime.passed,
            },
            "runtime": {"facts": self.runtime.facts, "failure": self.runtime.failure},
            "torch": {"facts": self.torch.facts, "failure": self.torch.failure},
            "variant": dict(self.variant.facts) or None,
            "variant_problem": self.variant.problem,
            "fits": self.exit_code == 0,
        }


def render_block(
    version: str, *, torch: bool, gloo: bool, nccl: bool, mpi: bool, verbose: bool
) -> str:
    """Horovod's block, byte for byte: with its four spaces at the end of the last line.

    Args:
        version: ours.
        torch: whether the PyTorch front end loads here.
        gloo: whether the built-in controller and transports load here.
        nccl: whether there is code for GPUs, and NCCL loads here.
        mpi: whether there are plug-ins for MPI, and an MPI loads here.
        verbose: Horovod starts with an empty line then.
    """

    def mark(here: bool) -> str:  # noqa: FBT001 - one bit in, one character out
        return "X" if here else " "

    block = f"""\
    Horovod v{version}:

    Available Frameworks:
        [ ] TensorFlow
        [{mark(torch)}] PyTorch
        [ ] MXNet

    Available Controllers:
        [{mark(mpi)}] MPI
        [{mark(gloo)}] Gloo

    Available Tensor Operations:
        [{mark(nccl)}] NCCL
        [ ] DDL
        [ ] CCL
        [{mark(mpi)}] MPI
        [{mark(gloo)}] Gloo"""
    return ("\n" if verbose else "") + textwrap.dedent(block) + "    \n"


def _describe_runtime(runtime: Trial) -> list[str]:
    if runtime.facts is None:
        return [f"    loaded: nothing ({runtime.failure})"]
    facts = runtime.facts
    best = facts["levels"][-1]
    if facts["level"] == best:
        why = "the best in it"
    elif runs_on(best, facts["cpu"]):
        why = f"the wide vectors of {best} would slow this CPU down"
    else:
        why = f"{best} needs more than this CPU's {facts['cpu']}"
    return [
        f"    levels in this build: {', '.join(facts['levels'])}",
        f"    loaded: {facts['level']} ({why}; this CPU supports {facts['cpu']})",
        *_describe_gpu(facts),
        *_describe_mpi(facts.get("mpi", {})),
    ]


def _describe_gpu(facts: Mapping[str, Any]) -> list[str]:
    kind, nccl = facts.get("gpu", ""), facts.get("nccl")
    if not kind:
        return []
    name = {"cuda": "NCCL", "hip": "RCCL"}[kind]
    opened = f"{name} {nccl}" if isinstance(nccl, int) else f"no {name} ({nccl})"
    return [f"    code for GPUs: {kind}; {opened}"]


def _describe_mpi(mpi: Mapping[str, Any]) -> list[str]:
    if not mpi.get("built"):
        return []
    if mpi["version"] is None:
        return [f"    MPI: none ({mpi['reason']})"]
    return [f"    MPI: {mpi['version']} ({mpi['library']}, {mpi['reason']})"]


def _describe_choice(variant: VariantReport) -> list[str]:
    if variant.problem:
        if variant.label:
            return [f"    label: {variant.label} (not compared: {variant.problem})"]
        return [f"    label: unknown ({variant.problem})"]
    facts = variant.facts
    fits = {True: "fits this machine", False: "does not fit this machine", None: "not compared"}
    lines = [
        f"    label: {facts['label'] or 'none'} ({fits[facts['fits']]}: {facts['reason']})"
        if facts["label"]
        else f"    label: none ({facts['reason']})"
    ]
    decision, conda = facts["decision"], facts.get("conda")
    if conda:
        build = f"{conda['build']} of {conda['channel']}"
        lines.append(f"    chosen by: conda's solver, build {build}")
        if facts.get("unused_gpu"):
            lines += [
                f"    no code for GPUs, and there is {facts['unused_gpu']}",
                f"    a build for it, if a channel has one: {facts['gpu_command']}",
            ]
    elif decision is None:
        lines.append("    chosen by: nobody; no decision is recorded with this installation")
    else:
        forced = ", forced by the user" if decision["forced"] else ""
        lines.append(f"    chosen by: variantwheel-selector {decision['selector_version']}{forced}")
        for candidate in decision["candidates"]:
            verdict = "accepted" if candidate["accepted"] else "rejected"
            reasons = f" ({'; '.join(candidate['reasons'])})" if candidate["reasons"] else ""
            lines.append(f"    {verdict}: {candidate['label'] or 'plain wheel'}{reasons}")
    if facts["better_label"]:
        lines.append(f"    would fit better: {facts['better_label']}")
    return lines


def render_report(report: BuildReport, repair_command: str, *, verbose: bool) -> str:
    """Everything that `--check-build` prints."""
    block = render_block(
        report.version,
        torch=report.torch.passed,
        gloo=report.runtime.passed,
        nccl=report.nccl,
        mpi=report.mpi,
        verbose=verbose,
    )
    lines = ["", "Variant:", *_describe_choice(report.variant), *_describe_runtime(report.runtime)]
    if not report.torch.passed:
        lines.append(f"    PyTorch: {report.torch.failure}")
    if report.exit_code != 0 or report.variant.facts.get("better_label"):
        lines.append(
            f"    to mend it: {report.variant.facts.get('repair_command', repair_command)}"
        )
    return block + "\n".join([*lines, "", GLOO_MEANS]) + "\n"
