"""An sdist that holds hashes alone: pip and uv fetch the chosen wheel from the user's index."""

import hashlib
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.environments import run
from integration.many_variants import PROJECT, Home, make_release
from unit.selector.fault_server import Faults, faulty

V3 = {"VARIANTWHEEL_ASSUME_CPU": "x86-64-v3", "VARIANTWHEEL_ASSUME_CUDA": ""}
WHEEL = "tiny_native-1.0-py3-none-manylinux_2_17_x86_64-x86_64_v3.whl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of one project, by the name of which its files are served."""
    site = tmp_path_factory.mktemp("site")
    project = site / "simple" / PROJECT
    project.mkdir(parents=True)
    make_release(project, tmp_path_factory.mktemp("work"), embedded=False)
    links = [f'<a href="{file.name}">{file.name}</a>' for file in project.iterdir()]
    (project / "index.html").write_text("\n".join(links))
    return site


@pytest.fixture
def faults(folder: Path) -> Faults:
    return Faults(folder)


@pytest.fixture
def index(faults: Faults) -> Iterator[str]:
    with faulty(faults) as address:
        yield f"{address}/simple"


def fetched(faults: Faults) -> list[str]:
    return [Path(path).name for path in faults.paths() if path.endswith(".whl")]


def test_pip_and_uv_fetch_the_chosen_wheel_alone(
    faults: Faults, index: str, home: Home, folder: Path
) -> None:
    home.pip("pip", "install", PROJECT, env=V3 | {"PIP_INDEX_URL": index})
    assert home.label("pip") == "x86_64_v3"
    assert fetched(faults) == [WHEEL]
    home.uv("uv", "install", PROJECT, env=V3 | {"UV_DEFAULT_INDEX": index})
    assert home.label("uv") == "x86_64_v3"
    assert fetched(faults) == [WHEEL], "uv's hook takes it from the cache that pip's hook filled"
    (kept,) = (home.folder / "home/.cache/variantwheel").rglob("*.whl")
    promised = hashlib.sha256((folder / "simple" / PROJECT / WHEEL).read_bytes()).hexdigest()
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == promised


def test_configuration_files_and_logins_reach_the_hook(
    faults: Faults, index: str, home: Home, tmp_path: Path
) -> None:
    """A login in pip.conf, one in uv.toml, one in variables, one in netrc; none is ever shown."""
    faults.login = "me:s3cret"
    with_login = index.replace("//", "//me:s3cret@")
    (tmp_path / "home/.config/pip").mkdir(parents=True)
    (tmp_path / "home/.config/pip/pip.conf").write_text(
        f"[global]\nindex-url = {with_login}\n[install]\nno_cache_dir = true\n"
    )
    (tmp_path / "pip.conf").write_text(f"[global]\nindex_url = {with_login}\nno-cache-dir = 1\n")
    (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{with_login}"\ndefault = true\n')
    pip_conf = V3 | {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    users_conf = V3 | {"PIP_CONFIG_FILE": ""}
    uv_toml = V3 | {"UV_CONFIG_FILE": str(tmp_path / "uv.toml"), "UV_NO_CONFIG": "0"}
    named = {"UV_INDEX": f"mine={index}", "UV_INDEX_MINE_USERNAME": "me"}
    named |= V3 | {"UV_INDEX_MINE_PASSWORD": "s3cret"}
    shown = [
        home.pip("a", "install", "-vv", PROJECT, env=pip_conf),
        home.pip("b", "install", "-vv", PROJECT, env=users_conf),
        home.uv("c", "install", PROJECT, env=uv_toml | {"UV_NO_CACHE": "1"}),
        home.uv("d", "install", PROJECT, env=named | {"UV_NO_CACHE": "1"}),
    ]
    netrc = tmp_path / "home/.netrc"
    netrc.write_text("machine 127.0.0.1 login me password s3cret\n")
    netrc.chmod(0o600)
    shown.append(home.pip("e", "install", "-vv", PROJECT, env=V3 | {"PIP_INDEX_URL": index}))
    assert fetched(faults).count(WHEEL) >= 5
    for name, text in zip("abcde", shown, strict=True):
        assert home.label(name) == "x86_64_v3"
        assert "s3cret" not in text
        decision = (home.dist_info(name) / "variant-decision.json").read_text()
        assert "s3cret" not in decision


def test_a_settings_index_serves_who_gives_options_on_the_command_line(
    index: str, home: Home
) -> None:
    options = ("install", PROJECT, "--index-url", index, "--no-cache-dir")
    refused = home.pip(
        "a", *options, expect=1, env=V3 | {"PIP_INDEX_URL": "http://127.0.0.1:1/simple"}
    )
    assert f"{WHEEL} is needed and was found nowhere" in refused
    assert "options on the" in refused
    assert "VARIANTWHEEL_INDEX_URL" in refused
    assert "Traceback" not in refused
    home.pip("a", *options, env=V3 | {"VARIANTWHEEL_INDEX_URL": index.replace("//", "//me:pw@")})
    decision = (home.dist_info("a") / "variant-decision.json").read_text()
    assert f"{index} (environment variable VARIANTWHEEL_INDEX_URL)" in decision
    assert "pw" not in decision.replace("PWD", "")
    home.pip("b", *options, "-C", f"index-url={index}", env=V3)
    assert home.label("b") == "x86_64_v3"


def test_a_closed_network_takes_what_was_brought(folder: Path, home: Home, tmp_path: Path) -> None:
    carried = tmp_path / "carried"
    carried.mkdir()
    project = folder / "simple" / PROJECT
    shutil.copy(project / "tiny_native-1.0.tar.gz", carried)
    closed = ("install", "--no-index", "--find-links", carried, PROJECT)
    refused = home.pip(
        "a", *closed, expect=1, env=V3 | {"PIP_INDEX_URL": "http://127.0.0.1:1/simple"}
    )
    assert f"{WHEEL} is needed and was found nowhere" in refused
    assert "VARIANTWHEEL_WHEEL_DIR=DIR" in refused
    brought = tmp_path / "brought"
    brought.mkdir()
    shutil.copy(project / WHEEL, brought)
    home.pip("a", *closed, env=V3 | {"VARIANTWHEEL_WHEEL_DIR": str(brought)})
    assert home.label("a") == "x86_64_v3"
    # What was exchanged on the way is not opened, wherever it lies.
    (brought / WHEEL).write_bytes(b"x" * (brought / WHEEL).stat().st_size)
    links = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(brought)}
    refused = home.pip("b", *closed, "--no-cache-dir", expect=1, env=V3 | links)
    assert "has another file of this name" in refused
    refused = home.uv(
        "c", *closed, expect=1, env=V3 | {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(brought)}
    )
    assert "forbidden by uv's setting 'offline'" in refused
    assert "Traceback" not in refused


def test_tls_with_the_users_certificate(faults: Faults, home: Home, tmp_path: Path) -> None:
    """An index with a certificate of the user's own authority, as closed networks have."""
    authority, certificate, key = (tmp_path / name for name in ("ca.pem", "s.pem", "s.key"))
    (tmp_path / "openssl.cnf").write_text("[req]\ndistinguished_name = name\n[name]\n")
    new = ("openssl", "req", "-config", tmp_path / "openssl.cnf", "-x509", "-days", "2", "-nodes",
           "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-addext")  # fmt: skip
    run(*new, "basicConstraints=critical,CA:TRUE", "-subj", "/CN=authority",
        "-keyout", tmp_path / "ca.key", "-out", authority)  # fmt: skip
    run(*new, "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
        "-CA", authority, "-CAkey", tmp_path / "ca.key", "-subj", "/CN=127.0.0.1",
        "-keyout", key, "-out", certificate)  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with faulty(faults, context) as address:
        where = {"PIP_INDEX_URL": f"{address}/simple"}
        cert = str(authority)
        home.pip("a", "install", PROJECT, "--no-cache-dir", env=where | V3 | {"PIP_CERT": cert})
        assert home.label("a") == "x86_64_v3"
        shutil.rmtree(home.folder / "home/.cache")
        uv = {"SSL_CERT_FILE": cert, "UV_DEFAULT_INDEX": f"{address}/simple"}
        home.uv("b", "install", PROJECT, env=V3 | uv)
        shutil.rmtree(home.folder / "home/.cache")
        host = {"PIP_TRUSTED_HOST": address.removeprefix("https://")}
        home.pip("c", "install", PROJECT, "--no-cache-dir", env=host | where | V3)
        shutil.rmtree(home.folder / "home/.cache")
        only_here = ("--no-cache-dir", "--cert", authority)
        refused = home.pip("d", "install", PROJECT, *only_here, expect=1, env=where | V3)
        assert "certificate verify failed" in refused
