"""Facts in `/proc/cpuinfo`, as far as the kernel vouches for them.

The kernel prints only what it enabled, so that the operating system, microcode, firmware and the
masks of hypervisors are already taken into account.
"""

from __future__ import annotations


def first_block(text: str) -> str:
    """Return the lines about the first processor; blocks are divided by an empty line."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            if lines:
                break
            continue
        lines.append(line.rstrip())
    return "".join(f"{line}\n" for line in lines)


def cpu_flags(text: str, line_name: str = "flags") -> frozenset[str] | None:
    """Return the CPU's feature names, or none if the text does not list them.

    Args:
        text: The file's content, or its first block.
        line_name: `flags` on x86, `Features` on Arm. The other one is not looked at: emulated and
            translated programs may see the file of a host of the other kind.

    The line looks like this on x86, and like the second one on Arm::

        flags		: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat
        Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp

    Under user-mode emulation of x86 on another architecture the file describes the host and has no
    `flags` line.
    """
    for line in first_block(text).splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == line_name:
            return frozenset(value.split()) or None
    return None
