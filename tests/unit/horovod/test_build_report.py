"""What `--check-build` prints."""

import pytest

from horovod.runner.build_report import (
    GLOO_MEANS,
    BuildReport,
    Trial,
    VariantReport,
    render_block,
    render_report,
)

HOROVODS_BLOCK = (
    b"Horovod v0.28.1:\n\nAvailable Frameworks:\n    [ ] TensorFlow\n    [X] PyTorch\n"
    b"    [ ] MXNet\n\nAvailable Controllers:\n    [ ] MPI\n    [X] Gloo\n\n"
    b"Available Tensor Operations:\n    [ ] NCCL\n    [ ] DDL\n    [ ] CCL\n    [ ] MPI\n"
    b"    [X] Gloo    \n"
)
LOADED = Trial({"level": "x86_64_v3", "levels": ["baseline", "x86_64_v3"], "cpu": "x86_64_v4"}, "")
TORCH = Trial({"torch": "2.13.0"}, "")
CANDIDATES = [
    {"label": "x86_64_v3", "accepted": True, "reasons": []},
    {"label": "cu12", "accepted": False, "reasons": ["no NVIDIA driver was found"]},
]
DECISION = {"selector_version": "0.1.0", "forced": False, "candidates": CANDIDATES}
FITTING = {
    "label": "x86_64_v3",
    "fits": True,
    "reason": "the CPU supports v4",
    "decision": DECISION,
    "better_label": None,
    "repair_command": "pip install again",
}


def report_with(runtime: Trial = LOADED, torch: Trial = TORCH, **variant: object) -> BuildReport:
    return BuildReport("0.1.0", runtime, torch, VariantReport("", {**FITTING, **variant}))


def test_the_block_is_horovods_byte_for_byte() -> None:
    block = render_block("0.28.1", torch=True, gloo=True, nccl=False, mpi=False, verbose=False)
    assert block.encode() == HOROVODS_BLOCK
    verbose = render_block("0.28.1", torch=True, gloo=True, nccl=False, mpi=False, verbose=True)
    assert verbose.encode() == b"\n" + HOROVODS_BLOCK


def test_marks_go_when_things_do_not_load() -> None:
    block = render_block("0.28.1", torch=False, gloo=False, nccl=False, mpi=False, verbose=False)
    assert "[X]" not in block
    assert block.endswith("[ ] Gloo    \n")


@pytest.mark.parametrize(
    ("facts", "mark", "line"),
    [
        ({"gpu": "cuda", "nccl": 22707}, "[X] NCCL", "code for GPUs: cuda; NCCL 22707"),
        ({"gpu": "hip", "nccl": "no such file"}, "[ ] NCCL", "hip; no RCCL (no such file)"),
        ({"gpu": ""}, "[ ] NCCL", ""),
    ],
)
def test_nccl_is_marked_where_the_build_has_code_and_the_library_opens(
    facts: dict[str, object], mark: str, line: str
) -> None:
    report = report_with(Trial({**(LOADED.facts or {}), **facts}, ""))
    text = render_report(report, "again", verbose=False)
    assert mark in text
    assert line in text
    assert ("code for GPUs" in text) is bool(line)
    assert report.to_json()["tensor_operations"]["nccl"] is (mark == "[X] NCCL")


@pytest.mark.parametrize(
    ("facts", "mark", "line"),
    [
        (
            {"version": "MPICH 5", "library": "l.so", "reason": "beside mpirun"},
            "[X] MPI",
            "    MPI: MPICH 5 (l.so, beside mpirun)\n",
        ),
        ({"version": None, "reason": "none found"}, "[ ] MPI", "    MPI: none (none found)\n"),
        ({"version": None, "reason": "not built", "built": []}, "[ ] MPI", ""),
    ],
)
def test_mpi_is_marked_where_there_is_a_plug_in_and_the_library_opens(
    facts: dict[str, object], mark: str, line: str
) -> None:
    mpi = {"built": ["mpich", "openmpi", "standard"], **facts}
    report = report_with(Trial({**(LOADED.facts or {}), "mpi": mpi}, ""))
    text = render_report(report, "again", verbose=False)
    assert text.count(mark) == 2
    assert line in text
    assert ("    MPI: " in text) is bool(line)
    assert report.to_json()["controllers"]["mpi"] is (mark == "[X] MPI")
    assert report.to_json()["tensor_operations"]["mpi"] is (mark == "[X] MPI")


def test_every_candidate_is_listed_with_its_reason() -> None:
    text = render_report(report_with(), "again", verbose=False)
    assert text.startswith("Horovod v0.1.0:\n")
    assert "label: x86_64_v3 (fits this machine: the CPU supports v4)" in text
    assert "rejected: cu12 (no NVIDIA driver was found)" in text
    assert "loaded: x86_64_v3 (the best in it; this CPU supports x86_64_v4)" in text
    assert "to mend it" not in text
    assert text.endswith(GLOO_MEANS + "\n")


def test_an_idle_gpu_is_told_beside_a_conda_package() -> None:
    conda = {"build": "nompi_cpu_py311h0123456_150", "channel": "ours"}
    report = report_with(conda=conda, unused_gpu="a device", gpu_command="conda install x-gpu")
    text = render_report(report, "again", verbose=False)
    assert "    no code for GPUs, and there is a device\n" in text
    assert "    a build for it, if a channel has one: conda install x-gpu\n" in text
    assert "levels in this build: baseline, x86_64_v3" in text
    text = render_report(report_with(conda=conda, unused_gpu=""), "again", verbose=False)
    assert "no code for GPUs" not in text


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        (
            "x86_64_v3",
            "x86_64_v4 needs more than this CPU's x86_64_v3; this CPU supports x86_64_v3",
        ),
        ("x86_64_v4", "the wide vectors of x86_64_v4 would slow this CPU down; this CPU supports"),
    ],
)
def test_it_is_said_why_the_highest_level_is_not_used(cpu: str, why: str) -> None:
    levels = ["baseline", "x86_64_v3", "x86_64_v4"]
    facts = {**(LOADED.facts or {}), "levels": levels, "cpu": cpu}
    report = report_with(Trial(facts, ""))
    assert f"loaded: x86_64_v3 ({why}" in render_report(report, "again", verbose=False)
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (report_with(), 0),
        (report_with(torch=Trial(None, "not installed")), 0),
        (report_with(fits=None), 0),
        (report_with(fits=False), 1),
        (report_with(runtime=Trial(None, "it crashed")), 1),
        (
            report_with(
                Trial({**(LOADED.facts or {}), "level": "baseline", "cpu": "x86_64_v2"}, "")
            ),
            1,
        ),
    ],
    ids=["all well", "no torch", "unknown", "misfit", "nothing loads", "cpu too old"],
)
def test_the_exit_code_is_1_when_the_build_does_not_fit(report: BuildReport, code: int) -> None:
    assert report.exit_code == code
    assert report.to_json()["fits"] is (code == 0)
    mends = "to mend it: pip install again" in render_report(report, "again", verbose=False)
    assert mends is (code == 1)


def test_what_is_unknown_is_said() -> None:
    report = BuildReport(
        "0.1.0", LOADED, Trial(None, "not installed"), VariantReport("no selector here", {})
    )
    text = render_report(report, "again", verbose=False)
    assert "label: unknown (no selector here)" in text
    assert "PyTorch: not installed" in text
    assert report.exit_code == 0


def test_without_the_selector_the_installation_itself_says_its_label() -> None:
    variant = VariantReport("no selector here", {}, "cu12")
    text = render_report(BuildReport("0.1.0", LOADED, TORCH, variant), "again", verbose=False)
    assert "label: cu12 (not compared: no selector here)" in text


@pytest.mark.parametrize("decision", [DECISION, None])
@pytest.mark.parametrize("conda", [{"build": "nompi_cpu", "channel": "https://c"}, None])
def test_a_command_to_mend_it_comes_with_its_reason(
    conda: dict[str, str] | None, decision: dict[str, object] | None
) -> None:
    report = report_with(conda=conda, decision=decision, better_label="x86_64_v4")
    text = render_report(report, "again", verbose=False)
    assert "    would fit better: x86_64_v4\n" in text
    assert "to mend it: pip install again" in text
    assert text.count("chosen by: ") == 1
    assert ("chosen by: conda's solver, build nompi_cpu of https://c\n" in text) is bool(conda)
