"""Whether this rank takes part in an optimizer's reductions, and with whom, from step to step."""

from horovod.common.process_sets import ProcessSet, global_process_set


class Participation:
    """A process set whose members may change while an optimizer has it.

    The same object may stand for other ranks after another `init()`, or once it was removed and
    added, and the same ranks for other processes in an elastic job.

    Args:
        process_set: of the optimizer.

    Raises:
        ValueError: it is a communicator's, and not registered.
    """

    def __init__(self, process_set: ProcessSet) -> None:
        self._process_set = None if process_set is global_process_set else process_set
        self._number = process_set.process_set_id
        self._here = self._process_set is None or process_set.included()

    def here(self) -> bool:
        """Whether this rank is a member; was, of a set that is not registered any more."""
        if self._process_set is not None:  # each gradient asks
            self._look(self._process_set)
        return self._here

    def number(self) -> int | None:
        """By which the job knows the members, and no others before or after; as `here`."""
        self.here()
        return self._number

    def _look(self, process_set: ProcessSet) -> None:
        if process_set.process_set_id is not None:
            self._number = process_set.process_set_id
            self._here = process_set.included()
