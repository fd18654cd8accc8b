"""At which addresses the hosts of a job whose hosts stay reach the launcher."""

import contextlib
import queue
from pathlib import Path

from horovod.runner.hosts import HostInfo, get_host_assignments
from horovod.runner.job import Job, _make_groups, make_output
from horovod.runner.network import address_towards
from horovod.runner.processes import LocalWorkers
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions


def test_each_host_tries_the_address_on_its_own_way_first_and_then_the_others(
    tmp_path: Path,
) -> None:
    hosts = [HostInfo("localhost", 1), HostInfo("127.0.0.2", 1), HostInfo("unknown.invalid", 1)]
    slots = get_host_assignments(hosts, 3)
    job = Job(["true"], slots, {}, tmp_path, SshOptions(None, None))
    way = address_towards("127.0.0.2")
    settings = job.worker_settings(["172.17.0.1", way, "fd00::1"], 9, b"s" * 32)
    with contextlib.closing(make_output(job, 3, lambda _: None)) as output:
        here, *others = _make_groups(job, settings, output, queue.SimpleQueue())
    assert isinstance(here, LocalWorkers)
    told = []
    for group in others:
        assert isinstance(group, RemoteWorkers)
        told.append(group._order.environment["HOROVOD_GLOO_RENDEZVOUS_ADDR"])
    assert told == [f"{way},172.17.0.1,fd00::1", f"172.17.0.1,{way},fd00::1"]
