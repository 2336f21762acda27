"""kplan's placement documents and recorded decisions in the form in which the oracle scheduler answers."""


def of_document(document):
    """Reduce a placement document to what the oracle says of a pod."""
    answer = {
        "pod": f"{document['pod']['namespace']}/{document['pod']['name']}",
        **{field: document[field] for field in ("outcome", "message", "node")},
        **{field: sorted(document[field]) for field in ("ties", "feasibleNodes", "notEvaluated")},
        "rejections": {node: _rejection(each) for node, each in document["rejections"].items()},
        "scores": {node: _score(each) for node, each in document["scores"].items()},
    }
    found = document["preemption"]
    if found is not None:
        answer["preemption"] = {
            **{field: found.get(field) for field in ("eligible", "message", "nominatedNode", "decidedBy")},
            "ties": sorted(found["ties"]),
            "candidates": {
                node: {"victims": each["victims"], "pdbViolations": each["pdbViolations"]}
                for node, each in found["candidates"].items()
            },
            "rejected": {node: _status(each) for node, each in found["rejected"].items()},
            "cleared": sorted(found["clearedNominations"]),
        }
    return answer


def _status(told):
    return {"code": told["code"], "plugin": told.get("plugin") or None, "reasons": list(told["reasons"])}


def _rejection(told):
    failing = {name: [each["code"], list(each["reasons"])] for name, each in told["alsoFailing"].items()}
    return {**_status(told), "alsoFailing": failing}


def _score(told):
    return {"total": told["total"], "plugins": {name: score for name, score in told["plugins"].items() if score}}


def of_oracle(answer):
    """Reduce an answer of the oracle likewise."""
    reduced = {**answer, "rejections": {node: _rejection(each) for node, each in answer["rejections"].items()}}
    found = answer.get("preemption")
    if found is not None:
        rejected = {node: _status(each) for node, each in found["rejected"].items()}
        reduced["preemption"] = {**found, "rejected": rejected, "cleared": sorted(found["cleared"])}
    return reduced


def of_record(record):
    """Reduce a recorded decision; what it does not hold is left out."""
    answer = {"pod": record["pod"], "outcome": record["result"].capitalize(), "message": record.get("message", "")}
    if answer["outcome"] in ("Error", "Gated"):
        return answer
    answer["feasibleNodes"] = sorted(record["feasible"])
    answer["notEvaluated"] = sorted(record.get("notEvaluated") or [])
    answer["rejections"] = {node: _status(each) for node, each in record["rejected"].items()}
    answer["scores"] = {node: _score(each) for node, each in (record.get("scores") or {}).items()}
    if answer["outcome"] == "Scheduled":
        answer["ties"], answer["node"] = sorted(record["best"]), record["chosen"]
    found = record.get("preemption")
    if found is not None:
        answer["preemption"] = {
            "message": ", ".join(found["status"]["reasons"]),
            "ties": sorted(found.get("selected") or []),
            "candidates": found.get("candidates") or {},
            "rejected": {node: _status(each) for node, each in (found.get("rejected") or {}).items()},
        }
    return answer


def like(answer, record):
    """Reduce an answer to what a reduced record holds."""
    reduced = {field: answer[field] for field in record if field != "preemption"}
    if "rejections" in record:
        reduced["rejections"] = {node: _status(each) for node, each in answer["rejections"].items()}
    if "preemption" in record:
        reduced["preemption"] = {field: answer["preemption"][field] for field in record["preemption"]}
    return reduced
