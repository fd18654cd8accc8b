"""The exceptions of Horovod's API."""


class HorovodInternalError(RuntimeError):
    """A collective failed, on all ranks alike, or a rank was lost; the message says which."""


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818 - Horovod's name
    """The set of hosts changed; training may go on after a new `init()`.

    Attributes:
        skip_sync: whether the state needs no new synchronisation.
    """

    def __init__(self, skip_sync: bool = False) -> None:  # noqa: FBT001, FBT002 - Horovod's signature
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """A framework's version differs from the one that an extension was built for.

    This library links no framework, so it never raises this itself.
    """

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """Words the difference between a framework at build time and now."""
    return (
        f"Framework {name} installed with version {installed_version} but found version"
        f" {version}.\n"
        "             This can result in unexpected behavior including runtime errors.\n"
        "             Reinstall Horovod using `pip install --no-cache-dir` to build with the new"
        " version."
    )
