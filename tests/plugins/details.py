"""Details as plain facts."""


def facts(detail):
    """Return the JSON form of a detail without what tells its kind, and without a reason that it does not name."""
    found = detail.to_dict()
    del found["kind"]
    if not found["reason"]:
        del found["reason"]
    return found
