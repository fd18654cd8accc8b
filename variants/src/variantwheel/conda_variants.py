"""How a project's variants appear in conda: recipe keys, build strings, priorities, dependencies.

A build string is `MPI_HARDWARE_pyXYZhHASH_NUMBER`, such as `nompi_x86_64_v3_py311h2eadb46_250` or
`mpi_openmpi_cuda12_py312h0bbb928_400`. The highest build number wins in every solver, hence the
offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from variantwheel.definition import Definition
from variantwheel_selector.model import NULL_LABEL, Variant
from variantwheel_selector.providers import nvidia, x86_64

MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}
"""The machine, as definitions spell it, of conda's platforms."""
MPI_CHOICES = ("nompi", "openmpi", "mpich")
NO_MPI = "nompi"
OFFSET = 100
"""Between one kind of hardware and the next better one; half of it goes to builds without MPI."""

_NULL_WORD = "cpu"
_ROCM = "rocm"
_NEOVERSE = "neoverse"
_CUDA_LABEL = re.compile(r"cu(\d+)")
_CUDA_WORD = re.compile(r"cuda(\d+)")
_LEVEL = re.compile(r"x86_64_v([2-4])")
_MACHINE_CODE = re.compile(r"(\d+)_real")
# Python makes no numbers of thousands of digits.
_BUILD = re.compile(
    r"(?P<mpi>nompi|mpi_[a-z]+)_(?P<hardware>cpu|rocm|neoverse|cuda[0-9]{1,9}|x86_64_v[2-4])_"
    r"(?:(?P<python>py[0-9]{2,9}))?h(?P<hash>[0-9a-f]{7})_(?P<number>[0-9]{1,9})"
)
_OLDEST_CUDA_RANK = 3
_OLDEST_CUDA = 11


@dataclass(frozen=True)
class CondaBuild:
    """A build string, taken apart.

    Attributes:
        mpi: `nompi`, or the name of the MPI's package.
        hardware: The word for the label.
        python: Such as `py311`; empty for a metapackage.
        hash: The seven digits of the hash.
        number: The build number.
    """

    mpi: str
    hardware: str
    python: str
    hash: str
    number: int

    @property
    def label(self) -> str:
        """The variant's label."""
        if self.hardware == _NULL_WORD:
            return NULL_LABEL
        cuda = _CUDA_WORD.fullmatch(self.hardware)
        return f"cu{cuda[1]}" if cuda else self.hardware

    @property
    def offset(self) -> int:
        """What its priority adds to the build number."""
        return OFFSET * _rank(self.hardware) + (OFFSET // 2 if self.mpi == NO_MPI else 0)


def parse_build(text: str) -> CondaBuild | None:
    """Take a build string apart; none if it has another form.

    >>> build = parse_build("mpi_openmpi_cuda12_py312h0bbb928_400")
    >>> build.label, build.mpi, build.offset
    ('cu12', 'openmpi', 400)
    """
    match = _BUILD.fullmatch(text)
    if match is None:
        return None
    mpi = match["mpi"].removeprefix("mpi_")
    return CondaBuild(
        mpi, match["hardware"], match["python"] or "", match["hash"], int(match["number"])
    )


def hardware_word(label: str) -> str:
    """Return the word that stands for a label in build strings.

    >>> [hardware_word(label) for label in ("null", "x86_64_v3", "cu12", "rocm")]
    ['cpu', 'x86_64_v3', 'cuda12', 'rocm']
    """
    if label == NULL_LABEL:
        return _NULL_WORD
    cuda = _CUDA_LABEL.fullmatch(label)
    return f"cuda{cuda[1]}" if cuda else label


def hardware_dependencies(hardware: str) -> tuple[str, ...]:
    """Return what a package for some hardware must depend on, to be kept from other machines.

    CUDA needs a version in the dependency itself: not all clients enforce what `cuda-version`
    constrains. A level needs the guard package: `__archspec` has the name of one CPU, not a level.
    """
    if cuda := _CUDA_WORD.fullmatch(hardware):
        major = int(cuda[1])
        return (f"__cuda >={major}", f"cuda-version >={major},<{major + 1}")
    if level := _LEVEL.fullmatch(hardware):
        return (f"_x86_64-microarch-level >={level[1]}",)
    return ("_aarch64-version-level >=8.4a",) if hardware == _NEOVERSE else ()


def oldest_cuda_arch(variant: Variant) -> str:
    """Return the lowest compute capability that a variant has code for; empty if it has none.

    PTX does not count: it serves devices that are newer than the code beside it.

    >>> from variantwheel_selector.model import VariantProperty
    >>> arches = ("120_virtual", "90_real", "100_real")
    >>> properties = [VariantProperty("nvidia", "sm_arch", arch) for arch in arches]
    >>> oldest_cuda_arch(Variant("cu12", tuple(properties)))
    '9.0'
    """
    values = variant.features().get((nvidia.NAMESPACE, nvidia.SM_ARCH), ())
    numbers = [int(match[1]) for value in values if (match := _MACHINE_CODE.fullmatch(value))]
    return f"{min(numbers) // 10}.{min(numbers) % 10}" if numbers else ""


def cuda_arch_expression(definitions: Iterable[Definition]) -> str:
    """Write what `recipe.yaml` takes for the oldest GPU architecture, by CUDA's major version."""
    oldest = {
        int(match[1]): f'"{arch}"'
        for definition in definitions
        if (match := _CUDA_LABEL.fullmatch(definition.label))
        and (arch := oldest_cuda_arch(definition.variant))
    }
    *older, newest = sorted(oldest)
    text = oldest[newest]
    for place, major in enumerate(reversed(older)):
        otherwise = f"({text})" if place else text
        text = f'{oldest[major]} if cuda_major == "{major}" else {otherwise}'
    return f"${{{{ {text} }}}}"


def unexpressed(variant: Variant) -> list[str]:
    """Tell which properties of a variant conda-forge's packages do not express."""
    faults: list[str] = []
    for item in variant.properties:
        if item.namespace == x86_64.NAMESPACE and item.feature == "level":
            continue
        if item.namespace in (nvidia.NAMESPACE, "amd"):
            continue  # the driver by __cuda; architectures by __cuda_arch where clients know it
        faults.append(f"{item} of {variant.label}: conda-forge has no package that guards it")
    return faults


def render_variants_yaml(definitions: Iterable[Definition]) -> str:
    """Write `recipe/variants.yaml`: the keys that conda-forge's own pinning does not have.

    CUDA is not among them: `cuda_compiler_version` is conda-forge's, zipped with compilers' keys.
    """
    known = list(definitions)
    missing = [fault for definition in known for fault in unexpressed(definition.variant)]
    levels = sorted(
        match[1]
        for definition in known
        if (match := _LEVEL.fullmatch(definition.label)) and definition.platform_for("x86_64")
    )
    lines = [
        "# Written from variants/definitions by `./dev generate`, checked by a test.",
        *(f"# Not here: {fault}." for fault in missing),
        "microarch_level:",
        '  - "1"',
    ]
    for level in levels:
        lines += ["  - if: linux and x86_64", f'    then: "{level}"']
    lines += ["mpi:", *(f"  - {mpi}" for mpi in MPI_CHOICES)]
    return "\n".join(lines) + "\n"


def _rank(hardware: str) -> int:
    """Return the place in the order of preference: ROCm, the baseline, CPU levels, CUDA by age.

    ROCm comes last, because no virtual package that all clients know guards it.
    """
    if cuda := _CUDA_WORD.fullmatch(hardware):
        return int(cuda[1]) - _OLDEST_CUDA + _OLDEST_CUDA_RANK
    return {_ROCM: 0, _NULL_WORD: 1}.get(hardware, 2)
