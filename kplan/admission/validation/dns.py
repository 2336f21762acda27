"""DNS configuration of pods (pkg/apis/core/validation validatePodDNSConfig)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import Errors, invalid, invalids, required
from kplan.admission.validation.texts import ip_errors, subdomain_with_underscore

_MOST_SERVERS, _MOST_PATHS, _MOST_CHARACTERS = 3, 32, 2048


def dns_config_errors(spec: dict[str, Any], path: str) -> Errors:
    """Return what is wrong with the DNS configuration of a pod; `path` is that of its spec."""
    config, path = spec.get("dnsConfig", {}), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None" and not config.get("nameservers"):
        if "dnsConfig" not in spec:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{path}.nameservers", detail)]
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    errors: Errors = []
    if len(servers) > _MOST_SERVERS:
        errors.append(invalid(f"{path}.nameservers", servers, f"must not have more than {_MOST_SERVERS} nameservers"))
    for index, server in enumerate(servers):
        errors += ip_errors(server, f"{path}.nameservers[{index}]")
    if len(searches) > _MOST_PATHS:
        errors.append(invalid(f"{path}.searches", searches, f"must not have more than {_MOST_PATHS} search paths"))
    if len(" ".join(searches).encode()) > _MOST_CHARACTERS:
        detail = f"must not have more than {_MOST_CHARACTERS} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, detail))
    for index, search in enumerate(searches):
        domain = "a" if search == "." else search.removesuffix(".")
        errors += invalids(f"{path}.searches[{index}]", domain, subdomain_with_underscore(domain))
    options = enumerate(config.get("options", []))
    nameless = [
        required(f"{path}.options[{index}]", "must not be empty") for index, option in options if not option.get("name")
    ]
    return errors + nameless
