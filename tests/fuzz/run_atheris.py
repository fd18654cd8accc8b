"""Fuzzes the targets with atheris, each in a process of its own and for a bounded time.

    python tests/fuzz/run_atheris.py [--seconds 5] [TARGET...]

needs the dependency group `fuzz`. What makes a target fail is left beside, as `crash-*`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

INPUT_LIMIT = 8192
SLOWEST_INPUT_S = 10


def fuzz_one(name: str, seconds: int, corpus: Path) -> None:
    """Fuzz one target in this process; does not return."""
    import atheris  # noqa: PLC0415 - of a dependency group of its own

    with atheris.instrument_imports(include=["variantwheel_selector"]):
        from fuzz.targets import TARGETS, feed  # noqa: PLC0415 - instrumented as it is imported

    (corpus / "seed").write_bytes(TARGETS[name][1])

    def test(data: bytes) -> None:
        feed(name, data)

    options = [
        f"-max_total_time={seconds}", f"-timeout={SLOWEST_INPUT_S}", f"-max_len={INPUT_LIMIT}",
        "-rss_limit_mb=2048", "-print_final_stats=1", str(corpus),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], test)
    atheris.Fuzz()


def main() -> int:
    """Fuzz the named targets, or all; 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=5, help="for each target")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.in_this_process:
        with tempfile.TemporaryDirectory() as corpus:
            fuzz_one(args.targets[0], args.seconds, Path(corpus))
        return 0
    from fuzz.targets import TARGETS  # noqa: PLC0415 - in the child it is imported instrumented

    unknown = sorted(set(args.targets) - set(TARGETS))
    if unknown:
        parser.error(f"unknown target {unknown[0]!r}; known are {', '.join(TARGETS)}")
    failed: list[str] = []
    for name in args.targets or TARGETS:
        command = [sys.executable, __file__, "--in-this-process", "--seconds", str(args.seconds)]
        done = subprocess.run(
            [*command, name], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=args.seconds + 120,
        )  # fmt: skip
        text = done.stdout.decode("utf-8", errors="replace")
        runs = next((line for line in text.splitlines() if "number_of_executed" in line), "")
        verdict = "fine" if done.returncode == 0 else "FAILED"
        sys.stdout.write(f"{name:16} {verdict}  {runs}\n")
        if done.returncode != 0:
            failed.append(name)
            sys.stdout.write(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
