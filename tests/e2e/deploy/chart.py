"""The Helm chart rendered by Helm's own engine, and its documents checked strictly.

As a program it renders one set of values: the engine is a Go library, and Go's runtime with its
signals stays out of the process of the tests.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from tests.waiting import completed

ROOT = Path(__file__).resolve().parents[3]
HELM = ROOT / "deploy" / "helm"
CHART = HELM / "opentalos"
PROGRAM = "tests.e2e.deploy.chart"  # this module
RELEASE, NAMESPACE = "queue", "tenants"
KUBERNETES = ("1.27", "1.37")  # the oldest that the chart accepts, and the newest that is known
OPERATOR = "monitoring.coreos.com/"  # not of Kubernetes

Document: TypeAlias = dict[str, Any]


class ChartError(Exception):
    """Helm refuses the values."""


def render(values: Document) -> list[Document]:
    """The documents of a release. Raises: ChartError, with Helm's reason."""
    return [
        document
        for path, text in _rendered(json.dumps(values)).items()
        if path.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]


@functools.cache
def _rendered(values: str) -> dict[str, str]:
    """Texts by path, of values in JSON."""
    done = completed([sys.executable, "-m", PROGRAM, CHART], input=values, cwd=ROOT)
    if done.returncode != 0:
        raise ChartError(done.stderr)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def example(name: str) -> Document:
    """The values of a file beside the chart."""
    found = yaml.safe_load((HELM / name).read_text())
    assert isinstance(found, dict)
    return found


def of_kind(documents: list[Document], kind: str) -> list[Document]:
    return [document for document in documents if document["kind"] == kind]


def only(documents: list[Document], kind: str) -> Document:
    (found,) = of_kind(documents, kind)
    return found


def container(documents: list[Document]) -> Document:
    (found,) = only(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def check(document: Document) -> None:
    """Raises: kubernetes_validate.ValidationError: a field is unknown, missing or wrong."""
    import kubernetes_validate

    for version in KUBERNETES:
        kubernetes_validate.validate(document, version, strict=True)


def main() -> None:
    """usage: python -m tests.e2e.deploy.chart CHART

    Values as JSON on stdin, texts by path as JSON on stdout.
    """
    import helm_python

    values = json.load(sys.stdin)
    try:
        found = helm_python.lint(sys.argv[1], values, strict=True)
        wrong = [item["error"] for item in found["messages"] if item["severity"] > 1]
        if wrong or found["errors"]:
            sys.exit("\n".join([*wrong, *found["errors"]]))
        with helm_python.Chart.load(sys.argv[1]) as chart:
            chart.validate_schema(values)
            rendered = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    except helm_python.HelmError as error:
        sys.exit(str(error))
    json.dump(rendered, sys.stdout)


if __name__ == "__main__":
    main()
