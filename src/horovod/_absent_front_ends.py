"""What importing a front end of Horovod's says that this project does not have."""

from typing import NoReturn


def refuse(module: str) -> NoReturn:
    """Ends the import of such a front end.

    Args:
        module: its name, such as `horovod.tensorflow`.

    Raises:
        ModuleNotFoundError: always.
    """
    message = (
        f"{module} is not part of horovod-variants, which serves PyTorch (horovod.torch) and NumPy"
        " arrays and other buffers (horovod.array). With Horovod itself, whose packages have the"
        " same names, it cannot be installed together"
    )
    raise ModuleNotFoundError(message, name=module)
