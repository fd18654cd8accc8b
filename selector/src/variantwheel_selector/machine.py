"""A machine: the captured facts about one computer and its Python, as texts in a folder."""

from __future__ import annotations

from variantwheel_selector.record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CPUINFO = "cpuinfo.txt"
AUXV = "auxv.txt"
GLIBC_CPUID = "glibc_cpuid.txt"

DEVICE_FILES = "device_files.txt"
GPU_FILES = "gpu_files.txt"
GPU_ENVIRONMENT = "gpu_environment.txt"
NVIDIA_DRIVER = "nvidia_driver.txt"
NVIDIA_SMI = "nvidia_smi.txt"
KFD_NODES = "kfd_nodes.txt"
PCI_CARDS = "pci_cards.txt"
SYSCTL = "sysctl.txt"
LIBRARIES = "libraries.txt"
BATCH_SYSTEM = "batch_system.txt"

TEXT_LIMITS = {
    CPUINFO: 16 * 1024,
    AUXV: 4 * 1024,
    GLIBC_CPUID: 4 * 1024,
    DEVICE_FILES: 32 * 1024,
    GPU_FILES: 16 * 1024,
    GPU_ENVIRONMENT: 4 * 1024,
    NVIDIA_DRIVER: 64 * 1024,
    NVIDIA_SMI: 4 * 1024,
    KFD_NODES: 512 * 1024,
    PCI_CARDS: 8 * 1024,
    SYSCTL: 16 * 1024,
    LIBRARIES: 32 * 1024,
    BATCH_SYSTEM: 4 * 1024,
}
"""The text files that a machine folder may hold, with the most bytes that are read."""

SCHEMA = 1
"""Of `machine.json`."""


@record
class PythonFacts:
    """The interpreter that will load the wheel.

    Attributes:
        interpreter: As in wheel tags, such as `cp311`.
        version: Such as `3.11.7`.
        abis: As in wheel tags, best first; a debug build has two.
    """

    interpreter: str
    version: str
    abis: tuple[str, ...]


@record
class Machine:
    """Captured facts about one computer.

    Attributes:
        system: `linux`, `darwin` or `win32`.
        machine: The CPU's architecture as the kernel says it, such as `x86_64`.
        pointer_bits: Of the interpreter; 32 on a 64-bit kernel means a 32-bit userland.
        libc: Name and version, such as `glibc 2.36`; none if unknown.
        python: The interpreter.
        texts: File names of `TEXT_LIMITS` to what was read.
        unknown: Facts that could not be found out, each with the reason.
    """

    system: str
    machine: str
    pointer_bits: int
    libc: str | None
    python: PythonFacts
    texts: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def facts(self) -> dict[str, str]:
        """Return what is known without a provider, by name, in words."""
        return {
            "machine": self.machine,
            "system": self.system,
            "pointer_bits": str(self.pointer_bits),
            "libc": self.libc or f"unknown: {self.unknown.get('libc', 'not captured')}",
            "python": self._python_words(),
        }

    def _python_words(self) -> str:
        free_threaded = any(abi.endswith(("t", "td")) for abi in self.python.abis)
        words = f"{self.python.interpreter} {self.python.version}"
        return f"{words}, free-threaded" if free_threaded else words

    def to_json(self) -> dict[str, object]:
        """Return the content of `machine.json`."""
        return {
            "schema": SCHEMA,
            "system": self.system,
            "machine": self.machine,
            "pointer_bits": self.pointer_bits,
            "libc": self.libc,
            "python": {
                "interpreter": self.python.interpreter,
                "version": self.python.version,
                "abis": list(self.python.abis),
            },
            "unknown": dict(sorted(self.unknown.items())),
        }
