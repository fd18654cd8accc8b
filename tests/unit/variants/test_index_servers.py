"""One and the same site behind the servers that people use, installed from by stock pip and uv."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from unit.variants.index_servers import NGINX_LOCATION, nginx, object_storage, pypiserver
from unit.variants.installers import UV, dist_info, installed_label, pip_install, run_installer
from unit.variants.tiny_project import TinySite

PREVIEW = ("--preview-features", "wheel-variants", "--no-build")
PLAIN_LOCATION = "root /srv/site; index index.html; types { text/html html; }\n"


def _uv_install(environment: Path, *words: str) -> None:
    run_installer(UV, "pip", "install", "--reinstall", *words, environment=environment)


def _chosen_by_selector(environment: Path) -> str:
    decision = (dist_info(environment) / "variant-decision.json").read_text(encoding="utf-8")
    return str(json.loads(decision)["label"])


def test_nginx_without_any_setting(
    tiny_site: TinySite, tmp_path: Path, environment: Path, best_label: str
) -> None:
    with nginx(tiny_site.site, tmp_path, location=PLAIN_LOCATION) as address:
        pip_install(environment, "--index-url", f"{address}/simple/", "tiny-variants")
        assert _chosen_by_selector(environment) == installed_label(environment) == best_label
        _uv_install(environment, *PREVIEW, "--index-url", f"{address}/simple/", "tiny-variants")
        assert installed_label(environment) == best_label


def test_nginx_serves_json_to_those_who_ask(
    tiny_site: TinySite, tmp_path: Path, environment: Path, best_label: str
) -> None:
    with nginx(tiny_site.site, tmp_path, location=NGINX_LOCATION) as address:
        page = f"{address}/simple/tiny-variants/"
        kind = "application/vnd.pypi.simple.v1+json"
        question = urllib.request.Request(page, headers={"Accept": kind})  # noqa: S310 - loopback
        with urllib.request.urlopen(question, timeout=60) as answer:  # noqa: S310 - same
            assert answer.headers["Content-Type"] == kind
            assert json.load(answer)["name"] == "tiny-variants"
        with urllib.request.urlopen(page, timeout=60) as answer:  # noqa: S310 - same
            assert answer.headers["Content-Type"] == "text/html"
        _uv_install(environment, *PREVIEW, "--index-url", f"{address}/simple/", "tiny-variants")
        assert installed_label(environment) == best_label
        pip_install(
            environment, "--force-reinstall", "--index-url", f"{address}/simple/", "tiny-variants"
        )
        assert _chosen_by_selector(environment) == best_label
    log = (tmp_path / "access.log").read_text(encoding="utf-8")
    assert "GET /simple/tiny-variants/ HTTP" in log
    assert "index.html" not in log


def test_pypiserver_drops_the_variants_json_and_the_selector_still_chooses(
    tiny_site: TinySite, tmp_path: Path, environment: Path, best_label: str
) -> None:
    with pypiserver(tiny_site.release, tmp_path) as address:
        with urllib.request.urlopen(  # noqa: S310 - the loopback address above
            f"{address}/simple/tiny-variants/", timeout=60
        ) as answer:
            page = answer.read().decode()
        assert "-null.whl" in page
        assert "variants.json" not in page
        pip_install(environment, "--index-url", f"{address}/simple/", "tiny-variants")
        assert _chosen_by_selector(environment) == best_label
        # uv in its preview finds no variants.json, and takes the sdist as well.
        _uv_install(environment, *PREVIEW[:2], "--index-url", f"{address}/simple/", "tiny-variants")
        assert _chosen_by_selector(environment) == best_label


def test_object_storage_without_folders(
    tiny_site: TinySite, environment: Path, best_label: str
) -> None:
    with object_storage(tiny_site.site) as address:
        page = f"{address}/simple/tiny-variants/index.html"
        pip_install(environment, "--no-index", "--find-links", page, "tiny-variants")
        assert _chosen_by_selector(environment) == best_label
        _uv_install(environment, *PREVIEW, "--no-index", "--find-links", page, "tiny-variants")
        assert installed_label(environment) == best_label
