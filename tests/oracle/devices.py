"""Which claims fit a node's devices at all: every choice tried, without order, memory or cleverness."""

from collections import Counter
from itertools import combinations, product


def fits(devices, requests, *, taken=(), match=None, distinct=None):
    """Tell whether devices can be chosen for all requests of one claim.

    Parameters
    ----------
    devices : list of dicts
        ``name``, ``kind``, ``group`` (or None), ``slots`` (drawn from the one counter), ``tainted``.
    requests : list of lists of dicts
        Alternatives of each request: ``kind``, ``count`` (or "all"), ``tolerates``.
    taken : names of devices that somebody else has
    match, distinct : whether all devices must share their group, or all have different ones
    """
    slots = 8 - sum(each["slots"] for each in devices if each["name"] in taken)
    for chosen in product(*requests):
        for picks in product(*(_picks(devices, each) for each in chosen)):
            names = Counter(each["name"] for pick in picks for each in pick)
            if any(n > 1 for n in names.values()) or any(name in taken for name in names):
                continue
            drawn = sum(each["slots"] for pick in picks for each in pick)
            if drawn and drawn > slots:  # others may hold more than there is; no matter to who draws nothing
                continue
            groups = [each["group"] for pick in picks for each in pick]
            if (match or distinct) and None in groups:
                continue
            if match and len(set(groups)) > 1:
                continue
            if distinct and len(set(groups)) < len(groups):
                continue
            return True
    return False


def _picks(devices, request):
    """List the sets of devices that one request could be given."""
    of_kind = [each for each in devices if each["kind"] == request["kind"]]
    usable = [each for each in of_kind if request["tolerates"] or not each["tainted"]]
    if request["count"] == "all":
        return [of_kind] if of_kind and of_kind == usable else []
    return list(combinations(usable, request["count"]))
