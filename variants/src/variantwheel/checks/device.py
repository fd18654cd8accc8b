"""The check that the GPU code in a wheel is for exactly the architectures that it declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.device_code import DeviceCode, find_device_code
from variantwheel_selector.providers import amd, nvidia

_CHECK = "device code"
_FEATURES: Mapping[str, str] = {nvidia.NAMESPACE: nvidia.SM_ARCH, amd.NAMESPACE: amd.GFX_ARCH}


def check_device_code(subject: CheckSubject) -> Finding:
    """Compare the device code in all files with the properties of the definition."""
    definition = subject.definition
    if definition is None:
        return skip(_CHECK, "no definition to compare with")
    features = definition.variant.features()
    found: dict[DeviceCode, str] = {}
    for path, data in subject.archive.files.items():
        for code in find_device_code(data):
            found.setdefault(code, path)
    faults: list[str] = []
    for namespace, feature in _FEATURES.items():
        declared = features.get((namespace, feature), ())
        mine = {code: path for code, path in found.items() if code.namespace == namespace}
        faults += _faults(f"{namespace}.{feature}", declared, mine, definition.file.name)
    words = ", ".join(sorted({code.architecture for code in found})) or "none, none declared"
    return judge(_CHECK, faults, words)


def _faults(
    key: str, declared: tuple[str, ...], found: Mapping[DeviceCode, str], file: str
) -> Iterator[str]:
    present = {code.architecture for code in found}
    there_is = ", ".join(sorted(present - {""})) or "none"
    for architecture in sorted(set(declared) - present):
        yield f"no code for {architecture}, which {file} declares as {key}; there is {there_is}"
    for code, path in sorted(found.items()):
        if not code.architecture:
            yield f"{path}: {code.form} of device code that cannot be told; store it uncompressed"
        elif code.architecture not in declared:
            yield (
                f"{path}: {code.form} for {code.architecture}, which {file} does not declare as "
                f"{key}: declare it, so that such machines choose the wheel, or leave it out"
            )
