"""The ClustersReport: what several clusters answer to one question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.api.quantity import count, listing
from kplan.documents.base import Report, Verdict, with_sentence
from kplan.documents.placement import ClusterAnswer, ClustersReport
from kplan.report.blocks import Block, Span, Table
from kplan.report.options import ReportOptions
from kplan.report.view import Case, Metric, State, View


def clusters_report(reports: Sequence[tuple[str, Report]]) -> ClustersReport:
    """Return what clusters answer to one question, each with its snapshot; it fails where none of them has room."""
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
    also = () if any(cluster.has_room for cluster in clusters) else ("no cluster has room",)
    return ClustersReport(
        snapshot=first.snapshot,
        scheduler=first.scheduler,
        verdict=Verdict.of(first.verdict.fail_on, (), also),
        warnings=tuple(dict.fromkeys(warning for _, report in reports for warning in report.warnings)),
        clusters=clusters,
    )


def _clusters_sentence(document: ClustersReport) -> str:
    names = [cluster.source for cluster in document.clusters if cluster.has_room]
    of = count(len(document.clusters), "cluster")
    have = f"{len(names)} of {of} {'has' if len(names) == 1 else 'have'} room: {listing(names)}"
    return have if names else f"None of {of} has room"


def _clusters_body(document: ClustersReport, _: ReportOptions) -> Iterator[Block]:
    room = {True: Span("yes", "good"), False: Span("no", "bad")}
    rows = tuple((one.source, str(one.nodes), room[one.has_room], one.answer) for one in document.clusters)
    yield Table(("CLUSTER", "NODES", "ROOM", "ANSWER"), rows, "<><<")


def _clusters_cases(document: ClustersReport, _: ReportOptions) -> Iterator[Case]:
    for cluster in document.clusters:
        # A cluster without room fails nothing while another one has some.
        state: State = "passed" if cluster.has_room else "failed" if document.verdict.failed else "skipped"
        detail = "\n".join((cluster.answer, *cluster.because))
        yield Case(cluster.source, state, "NoRoom", cluster.answer, detail, kind="cluster")


VIEW = View[ClustersReport](
    _clusters_sentence,
    _clusters_body,
    _clusters_cases,
    lambda document: [cluster.source for cluster in document.clusters if cluster.has_room],
    metrics=lambda document: (
        Metric("cluster_has_room", "Whether a cluster has room.", cluster.has_room, {"cluster": cluster.source})
        for cluster in document.clusters
    ),
    style=lambda document: "bad" if document.verdict.failed else "good",
)
