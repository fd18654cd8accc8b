"""Facts that the user states about the machine instead of what is found out.

A stated fact replaces the detection of that fact alone: an image that is built where there is no
GPU, or a login node, can thus be told what the machines are like that will run the code.
"""

from __future__ import annotations

from variantwheel_selector.record import record
from variantwheel_selector.typing_forms import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.parse.compute_cap import ComputeCapability
    from variantwheel_selector.parse.nvidia_version import CudaVersion
    from variantwheel_selector.parse.rocm_version import RocmVersion

T = TypeVar("T")


@record
class Assumed(Generic[T]):
    """A stated fact.

    Attributes:
        value: What is stated; none means that the machine has nothing of the kind.
        origin: Where, in words; for an environment variable its name.
    """

    value: T | None
    origin: str


@record
class Assumptions:
    """All stated facts; none where the machine is looked at.

    Attributes:
        cuda: The CUDA version that the driver supports.
        sm: The compute capabilities of all devices.
        gfx: The targets of all AMD GPUs.
        rocm: The version of ROCm.
        cpu: The x86-64 level `v1` to `v4`, or the Arm version `8a` to `9.2a`.
        libc: Such as `glibc 2.28`.
    """

    cuda: Assumed[CudaVersion] | None = None
    sm: Assumed[tuple[ComputeCapability, ...]] | None = None
    gfx: Assumed[tuple[str, ...]] | None = None
    rocm: Assumed[RocmVersion] | None = None
    cpu: Assumed[str] | None = None
    libc: Assumed[str] | None = None

    def about_gpus(self, namespace: str) -> bool:
        """Tell whether anything is stated about one maker's GPUs or what they need."""
        stated = {"nvidia": (self.cuda, self.sm), "amd": (self.gfx, self.rocm)}.get(namespace, ())
        return any(item is not None for item in stated)


NOTHING_ASSUMED = Assumptions()
