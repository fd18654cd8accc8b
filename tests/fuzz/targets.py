"""What is fuzzed: everything that reads what others wrote.

A target takes bytes. It may raise the selector's own errors and nothing else, ends soon, and leaves
nothing outside of a folder of its own. `tests/unit/selector/test_fuzz_targets.py` feeds the targets
from hypothesis, `run_atheris.py` beside this file from atheris.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from variantwheel_selector.decision import Decision
from variantwheel_selector.decision_reading import parse_decision
from variantwheel_selector.errors import SelectorError
from variantwheel_selector.machine import Machine, PythonFacts
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.manifest import Manifest, PayloadWheel, parse_manifest, render_manifest
from variantwheel_selector.model import Variant
from variantwheel_selector.parse.auxv import decode_auxv, parse_auxv
from variantwheel_selector.parse.compute_cap import parse_compute_cap
from variantwheel_selector.parse.glibc_cpuid import leaf_flags, parse_leaves
from variantwheel_selector.parse.kfd import parse_kfd_nodes
from variantwheel_selector.parse.libraries import cached_paths
from variantwheel_selector.parse.musl import elf_interpreter, musl_version
from variantwheel_selector.parse.nvidia_driver import parse_nvidia_driver
from variantwheel_selector.parse.pci import listed_addresses
from variantwheel_selector.payload import check_wheel, copy_payload
from variantwheel_selector.providers import supported
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings_file import parse_config_file
from variantwheel_selector.simple_index import parse_html_page, parse_json_page
from variantwheel_selector.stated_settings import merge_settings
from variantwheel_selector.surroundings import surroundings
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.variants_json import (
    ProviderInfo,
    VariantsInfo,
    parse_variants_json,
    render_variants_json,
)
from variantwheel_selector.wheel import hand_over
from variantwheel_selector.wheel_name import WheelName

INFO = VariantsInfo(
    ("x86_64",),
    {"null": Variant("null"), "v3": Variant.from_strings("v3", ["x86_64 :: level :: v3"])},
    {"x86_64": ProviderInfo(requires=("x86-64-variant-provider>=0.2",))},
)
WHEEL_NAME = "demo-1.0-py3-none-any-null.whl"
TAGS = ("py3-none-any",)


def _machine(**texts: str) -> Machine:
    named = {f"{name}.txt": text for name, text in texts.items()}
    python = PythonFacts("cp311", "3.11.7", ("cp311",))
    return Machine("linux", "x86_64", 64, "glibc 2.36", python, named)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def cpuinfo(data: bytes) -> None:
    """/proc/cpuinfo, to the end of what is concluded from it."""
    machine = _machine(cpuinfo=_text(data), auxv="AT_HWCAP 0x178bfbff\n", device_files="")
    supported(machine)
    surroundings(machine)


def auxv(data: bytes) -> None:
    """/proc/self/auxv, binary and as text."""
    for bits in (32, 64):
        parse_auxv(decode_auxv(data, bits))
    parse_auxv(_text(data))
    leaf_flags(parse_leaves(_text(data)))


def kfd(data: bytes) -> None:
    """KFD's topology."""
    parse_kfd_nodes(_text(data))
    files = "/dev/kfd read-write\n/dev/dri/renderD128 read-write\n/sys/class/kfd present\n"
    supported(_machine(kfd_nodes=_text(data), device_files=files, gpu_files=_text(data)))


def nvidia_smi(data: bytes) -> None:
    """nvidia-smi's list of compute capabilities."""
    parse_compute_cap(_text(data))


def nvidia_driver(data: bytes) -> None:
    """What NVIDIA's libraries answered, to the end of what is concluded from it."""
    parse_nvidia_driver(_text(data)).capabilities()
    files = "/dev/nvidiactl read-write\n/dev/nvidia0 read-write\n"
    supported(_machine(nvidia_driver=_text(data), device_files=files, gpu_files=_text(data)))


def device_texts(data: bytes) -> None:
    """The other texts of a machine folder."""
    text = _text(data)
    listed_addresses(text)
    names = ("device_files", "gpu_files", "gpu_environment", "pci_cards", "sysctl", "libraries")
    machine = _machine(**dict.fromkeys(names, text))
    supported(machine)
    surroundings(machine)


def binaries(data: bytes) -> None:
    """Programs, libraries and the dynamic linker's cache."""
    elf_interpreter(data)
    musl_version(data)
    cached_paths(data)


def variant_json(data: bytes) -> None:
    """variant.json and variants.json, written again and judged."""
    info = parse_variants_json(data)
    if parse_variants_json(render_variants_json(info)) != info:
        raise AssertionError("what was written is not what was read")
    names = {f"demo-1.0-py3-none-any-{label}.whl": None for label in info.variants}
    select(Release("demo", "1.0", info, names), merge_settings(None, {}, [], []), _machine())


def manifest(data: bytes) -> None:
    """The manifest of a selector sdist."""
    found = parse_manifest(data)
    if parse_manifest(render_manifest(found)) != found:
        raise AssertionError("what was written is not what was read")


def payload_ranges(data: bytes) -> None:
    """Ranges of a shared file: what they may lead to, and how much may come of them."""
    shared = bytes(range(256))
    document = json.loads(render_manifest(Manifest("demo", "1.0", "0.1.0", INFO, (_WHEEL,))))
    try:
        ranges, digest = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return
    size = len(shared)
    document["schema"] = 2
    document["wheels"][0] |= {"ranges": ranges, "sha256": digest, "size": size}
    (wheel,) = parse_manifest(json.dumps(document)).wheels
    with tempfile.TemporaryDirectory() as folder:
        path, copy = Path(folder, "wheels.bin"), io.BytesIO()
        path.write_bytes(shared)
        try:
            copy_payload(path, wheel, copy)
            if hashlib.sha256(copy.getvalue()).hexdigest() != digest:
                raise AssertionError("a wheel with another hash was accepted")
        finally:
            if len(copy.getvalue()) > size:
                raise AssertionError("more was written than the wheel has")


def decision(data: bytes) -> None:
    """The recorded decision."""
    parse_decision(data)


def configuration(data: bytes) -> None:
    """A configuration file, and its settings."""
    file = parse_config_file(_text(data), "config.toml", "demo", site=True)
    merge_settings(None, {}, [], [file]).described()


def settings(data: bytes) -> None:
    """Values of settings, by environment variables."""
    lines = [line.partition("=") for line in _text(data).splitlines()]
    environment = {f"VARIANTWHEEL_{name}": value for name, _, value in lines}
    merge_settings(None, environment, [], []).described()


def profile(data: bytes) -> None:
    """A machine profile, to the end of what is concluded from it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "node.json")
        path.write_bytes(data)
        machine = read_machine(path)
    supported(machine)
    supported_tags(machine)
    surroundings(machine)


def index_page(data: bytes) -> None:
    """A page of an index, JSON and HTML."""
    with contextlib.suppress(SelectorError):
        parse_json_page(data, "https://index.invalid/simple/demo/")
    parse_html_page(_text(data), "https://index.invalid/simple/demo/")


def wheel_name(data: bytes) -> None:
    """A wheel's file name."""
    text = _text(data)
    if str(WheelName.from_str(text)) != text:
        raise AssertionError("what was written is not what was read")


def wheel_archive(data: bytes) -> None:
    """A wheel that has the hash that was promised: what it may hold, and where it is written."""
    sha256 = hashlib.sha256(data).hexdigest()
    wheel = PayloadWheel(WHEEL_NAME, "null", max(len(data), 1), sha256)
    release = Manifest("demo", "1.0", "0.1.0", INFO, (wheel,))
    check_wheel(io.BytesIO(data), wheel, release, TAGS)
    # It was accepted: what is handed over must be a wheel without members that lead elsewhere.
    with tempfile.TemporaryDirectory() as folder:
        told = Decision("demo", "1.0", "null", forced=False, filename=WHEEL_NAME, sha256=sha256)
        path, out = Path(folder, WHEEL_NAME), Path(folder, "out")
        path.write_bytes(data)
        name = hand_over(path, wheel, release, TAGS, told, out)
        if sorted(item.name for item in Path(folder).rglob("*")) != sorted(
            [WHEEL_NAME, "out", name]
        ):
            raise AssertionError("other files than the wheel were written")
        with zipfile.ZipFile(out / name) as archive:
            for member in archive.namelist():
                if member.startswith("/") or ".." in member.split("/"):
                    raise AssertionError(f"{member!r} leads out of the folder")


def _whole_wheel() -> bytes:
    """A wheel that is accepted, to be changed bit by bit."""
    import base64  # noqa: PLC0415 - for this alone

    files = {
        "demo/__init__.py": b"",
        "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.2\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
        "demo-1.0.dist-info/variant.json": render_variants_json(INFO.only("null")).encode(),
    }
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files["demo-1.0.dist-info/RECORD"] = f"{record}demo-1.0.dist-info/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 2, 2, 0, 0, 0)), content)
    return packed.getvalue()


_NVML = {"init": 0, "cuda_version": 13000, "cuda_version_error": 0, "driver_version": "580.65.06"}
_PROFILE = {
    "schema": 1, "system": "linux", "machine": "x86_64", "pointer_bits": 64, "libc": "glibc 2.36",
    "python": {"interpreter": "cp311", "version": "3.11.7", "abis": ["cp311"]}, "unknown": {},
    "texts": {"cpuinfo.txt": "flags : sse2\n", "device_files.txt": ""},
}  # fmt: skip
_WHEEL = PayloadWheel(WHEEL_NAME, "null", 3, "0" * 64, ((1, 2), (0, 1)))
_RANGES = [[128, 128], [0, 128]]
_OF_RANGES = hashlib.sha256(bytes([*range(128, 256), *range(128)])).hexdigest()

TARGETS: dict[str, tuple[Callable[[bytes], None], bytes]] = {
    "cpuinfo": (cpuinfo, b"processor\t: 0\nflags\t\t: fpu sse2 avx2\n\nFeatures : asimd\n"),
    "auxv": (auxv, b"AT_HWCAP 0x178bfbff\nleaf 0: cpuid 0x1 0x2 0x3 0x4 / active 0x0 0x0 0x0 0x0"),
    "kfd": (kfd, b"node 1\nsimd_count 416\ngfx_target_version 90010\ndrm_render_minor 128\n"),
    "nvidia_smi": (nvidia_smi, b"8.0\n9.0\n"),
    "nvidia_driver": (
        nvidia_driver,
        json.dumps({"nvml": {"library": "a", "devices": [{"error": 0}], **_NVML}}).encode(),
    ),
    "device_texts": (device_texts, b"/dev/nvidiactl denied\n0000:01:00.0 10de:2684 nouveau\n"),
    "binaries": (binaries, b"\x7fELF\x02\x01\x01" + bytes(80) + b"musl libc\x001.2.5\x00"),
    "variant_json": (variant_json, render_variants_json(INFO).encode()),
    "manifest": (
        manifest, render_manifest(Manifest("demo", "1.0", "0.1.0", INFO, (_WHEEL,))).encode()
    ),
    "payload_ranges": (payload_ranges, json.dumps([_RANGES, _OF_RANGES]).encode()),
    "decision": (decision, json.dumps(Decision("demo", "1", "null", forced=False, filename=None,
                                               sha256=None).to_json()).encode()),
    "configuration": (configuration, b'forbid = [ "amd", ]\n[assume]\ncuda = "12"'),
    "settings": (settings, b"VARIANT=cu12!\nASSUME_CUDA=12.8\nFORBID=gpu,nvidia::sm_arch"),
    "profile": (profile, json.dumps(_PROFILE).encode()),
    "index_page": (index_page, b'<a href="demo-1.0-py3-none-any.whl#sha256=00">d</a>{"files": []}'),
    "wheel_name": (wheel_name, WHEEL_NAME.encode()),
    "wheel_archive": (wheel_archive, _whole_wheel()),
}  # fmt: skip
"""By name: the function, and an input that it accepts at least in part."""


def feed(name: str, data: bytes) -> bool:
    """Give a target one input; tell whether it was accepted."""
    function, _ = TARGETS[name]
    try:
        function(data)
    except SelectorError:
        return False
    return True
