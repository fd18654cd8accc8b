"""Finished wheels of earlier builds, kept with the digest of everything that went into them."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import variantwheel
from variantwheel.atomic_file import replace_file
from variantwheel.build_frontend import BuildRequest
from variantwheel.sdist_archive import SdistArchive

# What users set to change what compilers and build backends do. PATH is not among them: it differs
# from shell to shell, and that the compilers are the same is what `--resume` says.
_VARIABLES = """CC CXX CPP FC F77 F90 OBJC AR AS LD NM RANLIB STRIP LDSHARED LDCXXSHARED
    CUDACXX CUDAHOSTCXX HIPCXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS FFLAGS FCFLAGS OBJCFLAGS ARFLAGS
    ASFLAGS CUDAFLAGS HIPFLAGS LIBS OPT BASECFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH
    OBJC_INCLUDE_PATH LIBRARY_PATH LD_RUN_PATH COMPILER_PATH GCC_EXEC_PREFIX CCC_OVERRIDE_OPTIONS
    CUDAARCHS CUDA_HOME CUDA_PATH HIP_PATH ROCM_HOME ROCM_PATH ARCHFLAGS MACOSX_DEPLOYMENT_TARGET
    SDKROOT DEVELOPER_DIR _PYTHON_HOST_PLATFORM _PYTHON_SYSCONFIGDATA_NAME DIST_EXTRA_CONFIG"""
_PREFIXES = """CMAKE_ SKBUILD_ ZIG_ NVCC_ PKG_CONFIG SETUPTOOLS_ MATURIN_ PYO3_ RUST CARGO_BUILD_
    CARGO_PROFILE_ CARGO_TARGET_ CARGO_ENCODED_ CGO_ GOFLAGS"""
_WITHOUT_EFFECT = """CARGO_BUILD_JOBS CARGO_TARGET_DIR CMAKE_BUILD_PARALLEL_LEVEL
    CMAKE_COLOR_DIAGNOSTICS RUST_BACKTRACE RUST_LOG"""
"""On what is built, although their names begin so."""


@dataclass(frozen=True)
class KeptWheels:
    """The wheels in one folder."""

    folder: Path

    def find(self, job: str, digest: str) -> Path | None:
        """Return the wheel of a job if it was made of the same, and nobody has changed it."""
        try:
            note = json.loads(self._note(job).read_text(encoding="utf-8"))
            wheel = self.folder / str(note["file"])
            same = note["digest"] == digest and note["sha256"] == _sha256(wheel.read_bytes())
        except (OSError, json.JSONDecodeError, KeyError):
            return None
        return wheel if same else None

    def keep(self, job: str, digest: str, wheel: Path) -> None:
        """Remember a wheel that lies in the folder."""
        note = {"digest": digest, "file": wheel.name, "sha256": _sha256(wheel.read_bytes())}
        replace_file(self._note(job), json.dumps(note, indent=1).encode())

    def _note(self, job: str) -> Path:
        return self.folder / f"{job}.json"


def digest_inputs(
    sources: SdistArchive, request: BuildRequest, variants_json: str, headers: tuple[Path, ...]
) -> str:
    """Compute the digest of what a wheel is made of.

    Args:
        sources: The project's sdist.
        request: The backend's call.
        variants_json: What the wheel says about its label.
        headers: Folders of headers that lie outside of the sources.
    """
    digest = hashlib.sha256()

    def add(*words: str | bytes) -> None:
        for word in words:
            # Variables and names of folders need not be text.
            data = word.encode(errors="surrogateescape") if isinstance(word, str) else word
            digest.update(f"{len(data)}:".encode())
            digest.update(data)

    for path, item in sorted(sources.files.items()):
        add(path, str(item.executable), item.data)
    add(*(f"{key}={value}" for key, value in sorted(request.config_settings.items())))
    add(*(f"{key}={value}" for key, value in sorted(request.environment.items())))
    add(*sorted(request.requires), variants_json)
    add(*(f"{name}={value}" for name, value in sorted(os.environ.items()) if _decides(name)))
    # The toolkit's own code, because it decides how a wheel is labelled and packed.
    own = Path(variantwheel.__file__).parent
    for folder, ending in (*((item, "h") for item in headers), (own, "py")):
        for file in sorted(folder.rglob(f"*.{ending}")):
            add(file.relative_to(folder).as_posix(), file.read_bytes())
    return digest.hexdigest()


def _decides(variable: str) -> bool:
    """Tell whether a variable of the environment changes what is built."""
    named = variable in _VARIABLES.split() or variable.startswith(tuple(_PREFIXES.split()))
    return named and variable not in _WITHOUT_EFFECT.split()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
