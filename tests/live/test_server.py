"""The stand-in server answers as the recorded one did."""

import json

import pytest

from .server import ADMIN_TOKEN, READER_TOKEN, Cluster, Request, recordings

PAGES = [name for name in recordings() if "-limit" in name and "-page" in name]


def ask(cluster: Cluster, path: str, query: dict[str, str], token: str = ADMIN_TOKEN) -> dict[str, object]:
    headers = [("Authorization", f"Bearer {token}"), ("Accept", "application/json")]
    return json.loads(cluster.answer(Request("GET", path, query, headers)).body)


@pytest.mark.parametrize("name", PAGES)
def test_pages_and_their_tokens_are_those_of_the_real_server(name: str) -> None:
    recorded = recordings()[name]
    assert ask(Cluster(), recorded["request"]["path"], recorded["request"]["query"]) == recorded["response"]["body"]


@pytest.mark.parametrize("name", ["error-403-reader-nodes", "error-403-reader-pods-namespaced"])
def test_refusals_read_as_those_of_the_real_server(name: str) -> None:
    recorded = recordings()[name]
    cluster = Cluster(forbidden=frozenset({"nodes", "pods"}))
    answer = ask(cluster, recorded["request"]["path"], {}, READER_TOKEN)
    assert answer["message"] == recorded["response"]["body"]["message"]
