"""The pages of a static index: PEP 503's HTML and PEP 691's JSON, with PEP 658's metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

from variantwheel.index_files import IndexFile

_API_VERSION = "1.1"


def root_page(projects: Iterable[str]) -> str:
    """Write the page that lists the projects."""
    links = (f'    <a href="{quote(name)}/">{escape(name)}</a><br>' for name in projects)
    return _page("Simple index", links)


def root_json(projects: Iterable[str]) -> str:
    """Write the same as JSON."""
    return _json({"projects": [{"name": name} for name in projects]})


def project_page(project: str, files: Sequence[IndexFile]) -> str:
    """Write a project's page; the links are relative, so that the site works anywhere."""
    return _page(f"Links for {project}", (f"    {_link(file)}<br>" for file in files))


def project_json(project: str, files: Sequence[IndexFile]) -> str:
    """Write the same as JSON."""
    versions = sorted({file.version for file in files if file.kind != "variants"})
    return _json(
        {"name": project, "versions": versions, "files": [_file_json(file) for file in files]}
    )


def _page(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(lines)
    return (
        "<!DOCTYPE html>\n<html>\n  <head>\n"
        '    <meta charset="utf-8">\n'
        f'    <meta name="pypi:repository-version" content="{_API_VERSION}">\n'
        f"    <title>{escape(title)}</title>\n  </head>\n"
        f"  <body>\n    <h1>{escape(title)}</h1>\n{body}\n  </body>\n</html>\n"
    )


def _link(file: IndexFile) -> str:
    target = quote(file.name)
    # PEP 825: variants.json may change when variants are added, so no digest pins it.
    if file.kind != "variants":
        target += f"#sha256={file.sha256}"
    attributes = [f'href="{target}"']
    if file.requires_python:
        attributes.append(f'data-requires-python="{escape(file.requires_python)}"')
    if file.metadata is not None:
        digest = f"sha256={hashlib.sha256(file.metadata).hexdigest()}"
        # PEP 714: the second name is what older installers read.
        attributes += [f'data-core-metadata="{digest}"', f'data-dist-info-metadata="{digest}"']
    return f"<a {' '.join(attributes)}>{escape(file.name)}</a>"


def _file_json(file: IndexFile) -> dict[str, object]:
    document: dict[str, object] = {
        "filename": file.name,
        "url": quote(file.name),
        "hashes": {} if file.kind == "variants" else {"sha256": file.sha256},
        "size": file.size,
    }
    if file.requires_python:
        document["requires-python"] = file.requires_python
    if file.metadata is not None:
        digest = {"sha256": hashlib.sha256(file.metadata).hexdigest()}
        document |= {"core-metadata": digest, "dist-info-metadata": digest}
    return document


def _json(document: dict[str, object]) -> str:
    return json.dumps({"meta": {"api-version": _API_VERSION}, **document}, indent=1) + "\n"
