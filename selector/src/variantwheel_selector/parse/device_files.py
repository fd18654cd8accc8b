"""Facts in the texts about GPU files: which there are, and the first line of some."""

from __future__ import annotations

_STATES = ("read-write", "denied", "present")


def parse_device_files(text: str) -> dict[str, str]:
    """Return the state of each file by its path.

    The text looks like this; lines of any other form are passed over. A file that is no device is
    `present`; a device is `read-write` or `denied` to this process::

        /dev/nvidiactl read-write
        /dev/kfd denied
        /usr/lib/wsl/lib/libcuda.so.1 present
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        path, blank, state = line.strip().rpartition(" ")
        if blank and path.startswith("/") and state in _STATES:
            found[path] = state
    return found


def parse_file_lines(text: str) -> dict[str, str]:
    """Return the first line of each file by the file's path.

    The text looks like this, with a tabulator in the middle::

        /sys/module/nvidia/version	580.65.06
        /opt/rocm-6.3.0/.info/version	6.3.0-39
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        path, tabulator, content = line.partition("\t")
        if tabulator and path.startswith("/") and content.strip():
            found[path] = content.strip()
    return found


def parse_environment(text: str) -> dict[str, str]:
    """Return environment variables from lines `NAME=value`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equal_sign, value = line.partition("=")
        if equal_sign and name:
            found[name] = value
    return found
