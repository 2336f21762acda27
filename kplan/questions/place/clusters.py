"""The ClustersReport: which of several clusters has room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.api.quantity import count, listing
from kplan.documents.base import Report, Verdict, with_sentence
from kplan.documents.placement import ClusterAnswer, ClustersReport
from kplan.report.blocks import Block, Span, Table
from kplan.report.options import ReportOptions
from kplan.report.view import Case, Metric, State, View

_NO_ROOM = "no cluster has room"


def clusters_report(reports: Sequence[tuple[str, Report]]) -> ClustersReport:
    """Return what several clusters answer to one question; it fails where none of them has room.

    Parameters
    ----------
    reports : snapshot and answer of each cluster
    """
    clusters = tuple(
        ClusterAnswer(
            source=source,
            nodes=report.snapshot.nodes,
            has_room=not report.verdict.failed,
            because=report.verdict.because,
            answer=with_sentence(report).sentence,
            report=report.to_dict(),
        )
        for source, report in reports
    )
    first = reports[0][1]
    also = () if any(cluster.has_room for cluster in clusters) else (_NO_ROOM,)
    return ClustersReport(
        snapshot=first.snapshot,
        scheduler=first.scheduler,
        verdict=Verdict.of(first.verdict.fail_on, (), also),
        warnings=tuple(dict.fromkeys(warning for _, report in reports for warning in report.warnings)),
        clusters=clusters,
    )


def _sentence(document: ClustersReport) -> str:
    names = [cluster.source for cluster in document.clusters if cluster.has_room]
    of = count(len(document.clusters), "cluster")
    if not names:
        return f"None of {of} has room"
    return f"{len(names)} of {of} {'has' if len(names) == 1 else 'have'} room: {listing(names)}"


def _body(document: ClustersReport, _: ReportOptions) -> Iterator[Block]:
    rows = tuple(
        (
            cluster.source,
            str(cluster.nodes),
            Span("yes", "good") if cluster.has_room else Span("no", "bad"),
            cluster.answer,
        )
        for cluster in document.clusters
    )
    yield Table(("CLUSTER", "NODES", "ROOM", "ANSWER"), rows, "<><<")


def _cases(document: ClustersReport, _: ReportOptions) -> Iterator[Case]:
    for cluster in document.clusters:
        # A cluster without room fails nothing while another one has some.
        state: State = "passed" if cluster.has_room else "failed" if document.verdict.failed else "skipped"
        detail = "\n".join((cluster.answer, *cluster.because))
        yield Case(cluster.source, state, "NoRoom", cluster.answer, detail, kind="cluster")


def _names(document: ClustersReport) -> Iterator[str]:
    yield from (cluster.source for cluster in document.clusters if cluster.has_room)


def _metrics(document: ClustersReport) -> Iterator[Metric]:
    for cluster in document.clusters:
        yield Metric("cluster_has_room", "Whether a cluster has room.", cluster.has_room, {"cluster": cluster.source})


VIEW = View(
    _sentence,
    _body,
    _cases,
    _names,
    metrics=_metrics,
    style=lambda document: "bad" if document.verdict.failed else "good",
)
