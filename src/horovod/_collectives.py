"""Collectives without a framework, on the one runtime of this process."""

from collections.abc import Callable, Sequence
from typing import Any

from horovod._given_numbers import checked_device, checked_root, checked_shape
from horovod._loader import _bindings
from horovod._operations import Operand, buffer_of
from horovod._reductions import Reductions
from horovod._session import SESSION
from horovod.common.exceptions import HorovodInternalError


class Collectives(Reductions):
    """Starts all kinds of operations; `Operations` says what the methods have in common."""

    def allgather(
        self,
        source: Operand,
        finish: Callable[[Any], Any],
        *,
        name: str | None,
        process_set: int = 0,
        output: Operand | None = None,
        waits: bool = False,
    ) -> int:
        """Starts joining all ranks' tensors along the first dimension, in which they may differ.

        Args:
            source: this rank's.
            finish: see `Operations`.
            name: see `Operations`.
            process_set: see `Operations`.
            output: where the result goes if it has as many rows; see `check_output`.
            waits: see `Operations`.
        """
        return self._start(
            "allgather",
            name,
            (source,),
            lambda got: finish(buffer_of(got)),
            destinations=() if output is None else (output,),
            process_set=process_set,
            waits=waits,
        )

    def grouped_allgather(
        self,
        sources: Sequence[Operand],
        finish: "Callable[[list[_bindings.Buffer]], Any]",
        *,
        name: str | None,
        process_set: int = 0,
    ) -> int:
        """Starts several allgathers, which run together once all ranks have asked for all."""
        return self._start(
            "allgather",
            name,
            sources,
            lambda got: finish(got[0] if got else []),
            process_set=process_set,
            grouped=True,
        )

    def broadcast(
        self,
        source: Operand,
        destination: Operand,
        finish: Callable[[Any], Any],
        *,
        root: int,
        name: str | None,
        process_set: int = 0,
        waits: bool = False,
    ) -> int:
        """Starts sending one rank's tensor to all; the source counts on the root alone.

        Args:
            source: of the root; its shape and type count on all ranks.
            destination: where the root's tensor goes; may be the source.
            finish: called with None.
            root: a global rank, whatever the process set.
            name: see `Operations`.
            process_set: see `Operations`.
            waits: see `Operations`.
        """
        return self._start(
            "broadcast",
            name,
            (source,),
            finish,
            destinations=(destination,),
            process_set=process_set,
            waits=waits,
            root=checked_root(root),
        )

    def alltoall(
        self,
        source: Operand,
        finish: Callable[[Any, list[int]], Any],
        *,
        splits: Sequence[int] | None,
        name: str | None,
        process_set: int = 0,
        output: Operand | None = None,
        waits: bool = False,
    ) -> int:
        """Starts sending parts of this rank's tensor to all ranks, and receiving theirs.

        Args:
            source: cut along its first dimension.
            finish: called with the parts that this rank gets, joined along the first dimension in
                the order of the ranks, and with the number of rows that came from each; with none
                where `waits`, and even parts lie in the output.
            splits: how many rows go to each rank of the process set; their sum may be smaller than
                the first dimension. None for even parts.
            name: see `Operations`.
            process_set: see `Operations`.
            output: as of `allgather`.
            waits: see `Operations`.
        """
        return self._start(
            "alltoall",
            name,
            (source,),
            lambda got: finish(buffer_of(got), got[1] if got else []),
            destinations=() if output is None else (output,),
            process_set=process_set,
            waits=waits,
            numbers=() if splits is None else splits,
        )

    def share_memory(
        self, shape: Sequence[int], dtype: str, *, name: str | None = None, process_set: int = 0
    ) -> "_bindings.Buffer":
        """Allocates a tensor on every rank of a process set, which all ranks of its host map.

        An allreduce of memory at the same place of all these tensors works on it where it is. The
        memory is all zeros. Where ranks cannot share memory, each gets memory of its own.

        Raises:
            ValueError: as for all operations; a shape with a negative size or too many elements.
            HorovodInternalError: the ranks asked for different tensors, a rank was lost, or has no
                memory.
        """
        source = Operand(0, checked_shape(shape), dtype, None)
        handle = self._start(
            "share_memory", name, (source,), lambda got: got[0][0], process_set=process_set
        )
        buffer: _bindings.Buffer = self.synchronize(handle)
        return buffer

    def barrier(self, process_set: int = 0, *, name: str | None = None) -> None:
        """Waits until all ranks of a process set have come here.

        Args:
            process_set: see `Operations`.
            name: of one for which the ranks have not met on their callers' threads.
        """
        handle = self._start(
            "barrier", name, (), lambda _: None, process_set=process_set, waits=name is None
        )
        self.synchronize(handle)

    def join(self, device: int = -1) -> int:
        """Takes part with zeros in the others' allreduces until all ranks have joined.

        Args:
            device: the GPU to do that on where this rank has used none; negative for none.

        Returns:
            The last rank that joined, the same on all ranks.

        Raises:
            TypeError: the device is no whole number.
            ValueError: another thread of this rank has joined.

        One that a signal's handler has interrupted goes on, and the next one waits for it.
        """
        device = checked_device(device)
        member = self._ready_member()
        if member.interrupted:
            handle = member.interrupted.pop()
        else:
            numbers = () if device < 0 else (device,)
            handle = self._start("join", "join", (), lambda got: got[1][0], numbers=numbers)
        try:
            last: int = self.synchronize(handle)
        except HorovodInternalError:
            raise
        except BaseException:
            member.interrupted.append(handle)
            raise
        member.runtime.renumber_unnamed()
        return last

    def add_process_sets(self, sets: Sequence[Sequence[int]]) -> list[int]:
        """Registers process sets; all ranks of the job call it with the same ones.

        Args:
            sets: global ranks of each, ascending.

        Returns:
            Their numbers.

        Raises:
            HorovodInternalError: the ranks named different ones, or there is such a set already.
        """
        numbers = [number for ranks in sets for number in (len(ranks), *ranks)]
        handle = self._start("add_process_sets", None, (), lambda got: got, numbers=numbers)
        result = self.synchronize(handle)
        return list(result[1]) if result else []

    def remove_process_set(self, process_set: int) -> None:
        """Unregisters a process set; all ranks of the job call it. What it has pending fails."""
        self.synchronize(
            self._start("remove_process_set", None, (), lambda _: None, numbers=(process_set,))
        )


COLLECTIVES = Collectives(SESSION)
