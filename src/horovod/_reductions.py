"""Collectives that combine the ranks' tensors by arithmetic."""

from collections.abc import Callable, Sequence
from typing import Any

from horovod._loader import _bindings
from horovod._operations import Operand, Operations, buffer_of


class Reductions(Operations):
    """Starts allreduces and reducescatters; `Operations` says what all methods have in common."""

    def allreduce(
        self,
        source: Operand,
        destination: Operand,
        finish: Callable[[Any], Any],
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
        waits: bool = False,
    ) -> int:
        """Starts a reduction over all ranks of a process set.

        Args:
            source: what this rank contributes; travels in the type that it says.
            destination: where the result goes; may be the source.
            finish: called with None.
            name: see `Operations`.
            op: a reduction, checked by `choose_op`.
            prescale: multiplies every rank's contribution.
            postscale: multiplies the result.
            process_set: see `Operations`.
            waits: see `Operations`.
        """
        return self._start(
            "allreduce",
            name,
            (source,),
            finish,
            destinations=(destination,),
            process_set=process_set,
            waits=waits,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )

    def grouped_allreduce(
        self,
        sources: Sequence[Operand],
        destinations: Sequence[Operand],
        finish: Callable[[Any], Any],
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
    ) -> int:
        """Starts reducing several tensors, which run together once all ranks have asked for all.

        The group has one name, one handle, and the same tensors in the same order on all ranks.
        """
        return self._start(
            "allreduce",
            name,
            sources,
            finish,
            destinations=destinations,
            process_set=process_set,
            grouped=True,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )

    def reducescatter(
        self,
        source: Operand,
        finish: Callable[[Any], Any],
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
        output: Operand | None = None,
        waits: bool = False,
    ) -> int:
        """Starts a reduction of which each rank gets a part along the first dimension.

        The parts are even, but for the first ranks, which get one row more each when the first
        dimension is no multiple of the number of ranks.

        Args:
            source: this rank's.
            finish: see `Operations`.
            name: see `Operations`.
            op: a reduction, checked by `choose_op`.
            prescale: multiplies every rank's tensor.
            postscale: multiplies the result.
            process_set: see `Operations`.
            output: where the result goes if it has as many rows; see `check_output`.
            waits: see `Operations`.
        """
        return self._start(
            "reducescatter",
            name,
            (source,),
            lambda got: finish(buffer_of(got)),
            destinations=() if output is None else (output,),
            process_set=process_set,
            waits=waits,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )

    def grouped_reducescatter(
        self,
        sources: Sequence[Operand],
        finish: "Callable[[list[_bindings.Buffer]], Any]",
        *,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: int = 0,
    ) -> int:
        """Starts several reducescatters, which run together once all ranks have asked for all."""
        return self._start(
            "reducescatter",
            name,
            sources,
            lambda got: finish(got[0] if got else []),
            process_set=process_set,
            grouped=True,
            op=op,
            prescale=prescale,
            postscale=postscale,
        )
