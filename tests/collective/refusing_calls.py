"""Runs a command for which the kernel refuses some system calls, as a container's filter does.

python refusing_calls.py EPERM waitid,clone3 command...
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# Their numbers (the kernel's asm/unistd.h); those of newer calls are the same everywhere.
NUMBERS = {
    "x86_64": {"waitid": 247, "prlimit64": 302, "clone3": 435},
    "aarch64": {"waitid": 95, "prlimit64": 261, "clone3": 435},
}.get(platform.machine(), {})
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse(number: int, calls: list[str]) -> None:
    """Has the kernel answer calls of this process and its children with an error.

    Raises:
        OSError: it takes no filter.
    """
    code = struct.pack("HBBI", _LOAD, 0, 0, 0)  # the call's number
    for call in calls:
        code += struct.pack("HBBI", _JUMP_IF_EQUAL, 0, 1, NUMBERS[call])
        code += struct.pack("HBBI", _RETURN, 0, 0, _ERRNO | number)
    code += struct.pack("HBBI", _RETURN, 0, 0, _ALLOW)
    program = _Program(len(code) // 8, code)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0 or (
        library.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program)) != 0
    ):
        raise OSError(ctypes.get_errno(), "this kernel takes no filter of calls")


if __name__ == "__main__":
    refuse(getattr(errno, sys.argv[1]), sys.argv[2].split(","))
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - what the caller names
