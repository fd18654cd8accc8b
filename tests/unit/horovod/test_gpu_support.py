"""Where the libraries for GPUs are looked for."""

from pathlib import Path

from horovod._gpu import gpu_support


def test_a_build_without_code_for_gpus_opens_nothing() -> None:
    arguments = gpu_support("").runtime_arguments()
    assert arguments["gpu_kind"] == b""
    assert arguments["gpu_drivers"] == arguments["nccl_libraries"] == b""


def test_nccl_comes_from_its_home_then_from_wheels_then_from_the_system(tmp_path: Path) -> None:
    home, wheels = tmp_path / "home", tmp_path / "site-packages"
    for folder in (home / "lib", wheels / "nvidia/nccl/lib"):
        folder.mkdir(parents=True)
        (folder / "libnccl.so.2").touch()
    search_path = [str(tmp_path / "empty"), str(wheels)]
    found = gpu_support("cuda", {"HOROVOD_NCCL_HOME": str(home)}, search_path)
    assert found.nccl == (
        str(home / "lib/libnccl.so.2"),
        str(wheels / "nvidia/nccl/lib/libnccl.so.2"),
        "libnccl.so.2",
    )
    assert found.drivers == ("libcuda.so.1",)
    assert gpu_support("cuda", {}, []).nccl == ("libnccl.so.2",)


def test_amds_come_from_the_stated_rocm_then_from_the_system_then_from_the_usual_place(
    tmp_path: Path,
) -> None:
    for folder, version in (("stated", 6), ("usual", 7)):
        (tmp_path / folder / "lib").mkdir(parents=True)
        for name in ("librccl.so.1", f"libamdhip64.so.{version}"):
            (tmp_path / folder / "lib" / name).touch()
    stated, usual = str(tmp_path / "stated/lib"), str(tmp_path / "usual/lib")
    variables = {"ROCM_PATH": str(tmp_path / "stated")}
    found = gpu_support("hip", variables, [], tmp_path / "usual")
    assert found.nccl == (f"{stated}/librccl.so.1", "librccl.so.1", f"{usual}/librccl.so.1")
    names = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
    assert found.drivers == (
        f"{stated}/libamdhip64.so.6", *names, f"{usual}/libamdhip64.so.7",
    )  # fmt: skip
    of_nvidia = gpu_support("cuda", variables, [], tmp_path / "usual")
    assert (of_nvidia.drivers, of_nvidia.nccl) == (("libcuda.so.1",), ("libnccl.so.2",))


def test_amd_has_its_own_names(tmp_path: Path) -> None:
    found = gpu_support("hip", {}, [], tmp_path)
    assert found.nccl == ("librccl.so.1",)
    assert found.drivers[0] == "libamdhip64.so.7"
    assert found.runtime_arguments()["gpu_drivers"].count(b"\n") == 2


def test_the_page_names_every_library_and_the_order() -> None:
    page = (Path(__file__).parents[3] / "docs/gpu.md").read_text(encoding="utf-8")
    for kind in ("cuda", "hip"):
        found = gpu_support(kind, {}, [], Path("nowhere"))
        for name in (*found.drivers, *found.nccl):
            assert name in page or f"`.{name.partition('.')[2]}`" in page
    places = (
        "in the process", "$HOROVOD_NCCL_HOME/lib", "$ROCM_PATH/lib", "nvidia/nccl/lib",
        "the dynamic loader", "/opt/rocm/lib",
    )  # fmt: skip
    assert sorted(places, key=page.index) == list(places)
