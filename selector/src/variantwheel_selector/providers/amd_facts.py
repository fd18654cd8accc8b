"""What a machine's texts say about AMD: which GPUs there are, and can this process use them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from variantwheel_selector.fact import Fact, No, Unknown, Yes
from variantwheel_selector.machine import (
    DEVICE_FILES,
    GPU_ENVIRONMENT,
    GPU_FILES,
    KFD_NODES,
    PCI_CARDS,
    Machine,
)
from variantwheel_selector.parse.device_files import (
    parse_device_files,
    parse_environment,
    parse_file_lines,
)
from variantwheel_selector.parse.kfd import KfdNode, override_gfx, parse_kfd_nodes
from variantwheel_selector.parse.pci import VENDORS, parse_pci_cards
from variantwheel_selector.parse.rocm_version import RocmVersion, rocm_version
from variantwheel_selector.providers.amd_targets import target_id
from variantwheel_selector.providers.no_gpu import NO_AMD
from variantwheel_selector.record import record

# GPUs that come in one chip with a CPU, by their targets (LLVM, "User Guide for AMDGPU Backend").
# Newer kernels list them as nodes of their own, so that the node does not tell.
_INTEGRATED = frozenset(
    f"gfx{number}"
    for number in (
        *("902", "90c", "1013", "1033", "1035", "1036", "1037", "1103"),
        *("1150", "1151", "1152", "1153"),
    )
)
_ROCM_FILE = r"/opt/rocm(-[0-9.]+)?/\.info/version"
_ACCESS = "in a container: --device=/dev/kfd --device=/dev/dri --group-add render"


@record
class AmdFacts:
    """What is known.

    Attributes:
        gfx: The target IDs of the GPUs that this process can use, sorted.
        rocm: The versions of ROCm below `/opt`, the one in `/opt/rocm` first, then newest first.
        notes: What else should be known about the answer, in words.
    """

    gfx: Fact[tuple[str, ...]]
    rocm: Fact[tuple[RocmVersion, ...]]
    notes: tuple[str, ...] = ()


def amd_facts(machine: Machine) -> AmdFacts:
    """Return what a machine's texts say about AMD GPUs and ROCm."""
    if DEVICE_FILES not in machine.texts:
        why = machine.unknown.get("device_files", "the machine's device files were not captured")
        return AmdFacts(Unknown(why), Unknown(why))
    files = parse_device_files(machine.texts[DEVICE_FILES])
    lines = parse_file_lines(machine.texts.get(GPU_FILES, ""))
    variables = parse_environment(machine.texts.get(GPU_ENVIRONMENT, ""))
    notes: list[str] = []
    gfx = _gfx(machine, files, notes, xnack=_xnack(variables))
    override = variables.get("HSA_OVERRIDE_GFX_VERSION")
    if override is not None and isinstance(gfx, Yes):
        gfx = _overridden(gfx, override, notes)
    driver = lines.get("/sys/module/amdgpu/version")
    if driver is not None and isinstance(gfx, Yes):
        notes.append(f"amdgpu {driver}")
    return AmdFacts(gfx, _rocm(lines), tuple(notes))


def _gfx(
    machine: Machine, files: Mapping[str, str], notes: list[str], *, xnack: bool | None
) -> Fact[tuple[str, ...]]:
    nodes = parse_kfd_nodes(machine.texts.get(KFD_NODES, ""))
    gpus = [node for node in nodes if node.is_gpu]
    forbidden = [node for node in nodes if node.unreadable]
    kfd = files.get("/dev/kfd")
    if not nodes:
        if kfd is not None:
            return Unknown("/dev/kfd is there, but no topology in /sys/class/kfd")
        if "/dev/dxg" in files:
            return Unknown("under WSL the targets of AMD GPUs cannot be found out")
        cards = parse_pci_cards(machine.texts.get(PCI_CARDS, ""))
        for card in cards:
            if VENDORS[card.vendor] == "AMD":
                target = card.target or "TARGET"
                return No(
                    f"an AMD card is in the machine ({card.words()}), but there is no "
                    "/sys/class/kfd with nodes: the amdgpu driver does not offer it for computing; "
                    f"to choose for machines where it does: assume-gfx={target}"
                )
        return No(NO_AMD)
    if kfd != "read-write":
        if not gpus and not forbidden:
            return No("the kernel lists no AMD GPU")
        what = "is not there" if kfd is None else "may not be used by this process"
        targets = ", ".join(sorted({node.gfx for node in gpus if node.gfx}))
        kind = f" ({targets})" if targets else ""
        return No(f"an AMD GPU{kind} is in the machine, but /dev/kfd {what}; {_ACCESS}")
    usable: list[KfdNode] = []
    for node in gpus:
        reason = _unusable(node, files)
        if reason:
            notes.append(f"node {node.number} is left out: {reason}")
        else:
            usable.append(node)
    if forbidden:
        first = forbidden[0]
        notes.append(
            f"{len(forbidden)} nodes are not this process's to use (node {first.number}: "
            f"{first.unreadable})"
        )
    if not usable:
        why = "; ".join(notes)
        return No(f"{why}; {_ACCESS}") if why else No("the kernel lists no AMD GPU")
    return _targets(usable, notes, xnack=xnack)


def _targets(
    usable: list[KfdNode], notes: list[str], *, xnack: bool | None
) -> Fact[tuple[str, ...]]:
    if any(node.gfx is None for node in usable):
        numbers = ", ".join(str(node.number) for node in usable if node.gfx is None)
        return Unknown(f"this kernel does not tell the target of GPU node {numbers}")
    discrete = {node.gfx for node in usable if not _integrated(node)} - {None}
    all_targets = {node.gfx for node in usable} - {None}
    if discrete and discrete != all_targets:
        left_out = ", ".join(sorted(str(gfx) for gfx in all_targets - discrete))
        notes.append(f"the integrated {left_out} does not count beside a discrete GPU")
    chosen = discrete or all_targets
    targets = {
        target_id(node.gfx, sramecc=node.sramecc, xnack=xnack)
        for node in usable
        if node.gfx is not None and node.gfx in chosen
    }
    return Yes(tuple(sorted(targets)), "KFD topology")


def _xnack(variables: Mapping[str, str]) -> bool | None:
    """Return whether programs started from this environment ask for repeated accesses."""
    return {"1": True, "0": False}.get(variables.get("HSA_XNACK", ""))


def _integrated(node: KfdNode) -> bool:
    return node.properties.get("cpu_cores_count", 0) > 0 or node.gfx in _INTEGRATED


def _unusable(node: KfdNode, files: Mapping[str, str]) -> str:
    minor = node.properties.get("drm_render_minor", 0)
    if minor == 0:
        return ""  # kernels without the line, and GPUs without a render node
    path = f"/dev/dri/renderD{minor}"
    state = files.get(path)
    if state == "read-write":
        return ""
    return f"{path} {'is not there' if state is None else 'may not be used by this process'}"


def _overridden(gfx: Yes[tuple[str, ...]], override: str, notes: list[str]) -> Yes[tuple[str, ...]]:
    target = override_gfx(override)
    if target is None:
        notes.append(f"HSA_OVERRIDE_GFX_VERSION={override} is no version and does not count")
        return gfx
    notes.append(
        f"warning: HSA_OVERRIDE_GFX_VERSION={override} stands for {target}; "
        f"the hardware is {', '.join(gfx.value)}, and programs run without it may crash"
    )
    return Yes((target,), "HSA_OVERRIDE_GFX_VERSION")


def _rocm(lines: Mapping[str, str]) -> Fact[tuple[RocmVersion, ...]]:
    found: dict[str, RocmVersion] = {}
    for path, line in lines.items():
        version = rocm_version(line) if re.fullmatch(_ROCM_FILE, path) else None
        if version is not None:
            found[path] = version
    if not found:
        damaged = [path for path in lines if re.fullmatch(_ROCM_FILE, path)]
        return Unknown(f"{damaged[0]} holds no version") if damaged else No("no ROCm in /opt/rocm*")
    default = found.get("/opt/rocm/.info/version")
    others = sorted(set(found.values()) - {default}, reverse=True)
    return Yes((*([default] if default else []), *others), "/opt/rocm*/.info/version")
