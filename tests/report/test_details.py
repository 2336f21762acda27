import msgspec
import pytest
import yaml

from kplan.engine.details import Detail
from kplan.report.details import detail_text

#: What a detail is, the detail, and its sentence.
SENTENCES = """
## a resource that is short
{kind: resource, reason: Insufficient cpu, resource: cpu, requested: '2', free: 500m, allocatable: '4', short: 1500m}
=> requests 2 cpu, 500m of 4 free: 1500m short
## a resource that the node does not have
{kind: resource, resource: gpu, requested: '2', free: '0', allocatable: '0', short: '2'}
=> requests 2 gpu, the node has none
## too many pods
{kind: resource, resource: pods, requested: '1', free: '0', allocatable: '110', short: '1'}
=> runs 110 pods already, the maximum
## a taint
{kind: taint, taint: 'dedicated=ml:NoSchedule'}
=> taint dedicated=ml:NoSchedule is not tolerated
## a cordoned node
{kind: taint, taint: 'node.kubernetes.io/unschedulable:NoSchedule', unschedulable: true}
=> the node is cordoned
## a node selector without the label
{kind: node-selector, nodeSelector: disk=ssd, actual: null}
=> nodeSelector requires disk=ssd, the node has no label disk
## a node selector with another value
{kind: node-selector, nodeSelector: disk=ssd, actual: hdd}
=> nodeSelector requires disk=ssd, the node has disk=hdd
## a node affinity term
{kind: node-affinity, term: 'a in (1),b', failed: [a in (1) (is 2), b (no such label)]}
=> node affinity requires a in (1) (is 2) and b (no such label)
## a node affinity term for another node
{kind: node-affinity, term: metadata.name=a, failed: [metadata.name=a (is b)], conditions: [{condition: metadata.name=a,
      actual: b, isName: true}]}
=> node affinity requires metadata.name=a
## a host port on any address
{kind: host-port, hostIP: 0.0.0.0, protocol: TCP, hostPort: 80, pods: [a/b], andMore: 2}
=> host port 80/TCP is taken by a/b and 2 more
## a host port on one address
{kind: host-port, hostIP: 10.0.0.1, protocol: UDP, hostPort: 53, pods: [a/b]}
=> host port 10.0.0.1:53/UDP is taken by a/b
## a skew
{kind: skew, topologyKey: zone, maxSkew: 1, domain: a, matchingPods: 2, selfMatch: 1, minimum: 0, skew: 3, domains: 2,
  emptiestDomains: [b], labelSelector: app=web}
=> zone=a would have 3 matching pods, the fewest are 0 in b: skew 3, at most 1 allowed
## a skew with too few domains
{kind: skew, topologyKey: zone, maxSkew: 1, domain: a, matchingPods: 1, selfMatch: 1, minimum: 0, skew: 2, domains: 2,
  minDomains: 3, labelSelector: ''}
=> zone=a would have 2 matching pods, only 2 of at least 3 domains exist, so 0 counts as the fewest: skew 2, at most 1
allowed
## a label that a rule goes by
{kind: spread-label, topologyKey: zone, missingLabel: zone, maxSkew: 1, labelSelector: ''}
=> the node has no label zone, which a rule of the pod needs
## affinity to pods elsewhere
{kind: affinity, topologyKey: zone, domain: a, terms: [{labelSelector: app=db, namespaces: [shop]}],
  domainsWithMatchingPods: [b, c], andMore: 1}
=> no pod with app=db in namespace shop in zone=a; such pods run in b, c and 1 more
## affinity to pods that are nowhere
{kind: affinity, topologyKey: zone, domain: a, terms: [{labelSelector: app=db, namespaces: all}],
  domainsWithMatchingPods: []}
=> no pod with app=db in any namespace in zone=a; no such pod runs anywhere
## the pod's own anti-affinity
{kind: anti-affinity, reason: node(s) didn't match pod anti-affinity rules, topologyKey: host, domain: n1, terms: [
    {labelSelector: app=web, namespaces: [default]}], pods: [default/web-0], matchingPods: 1}
=> anti-affinity excludes default/web-0 in host=n1 (app=web in namespace default)
## a running pod's anti-affinity
{kind: existing-anti-affinity, reason: node(s) didn't satisfy existing pods anti-affinity rules, topologyKey: host,
  domain: n1, terms: [{labelSelector: app=web, namespaces: [a], namespaceSelector: team=x}], pods: [a/db-0],
  matchingPods: 1}
=> anti-affinity of a/db-0 in host=n1 excludes pods with app=web in namespaces with team=x
## a volume in another zone
{kind: volume-zone, volume: pv, label: zone, allowed: [a], node: null}
=> volume pv is in zone=a, the node in none
## too many volumes
{kind: volume-limit, driver: ebs, limit: '2', used: '2', new: '1', short: '1', volumes: [], attachedWithoutPod: '0'}
=> ebs attaches at most 2 volumes here, 2 in use, 1 more requested: 1 too many
## devices
{kind: devices, claim: a/b, request: r, deviceClass: gpu, wanted: '2', matching: '4', free: '1'}
=> claim a/b requests 2 of gpu (r): 4 devices match, 1 of them free
## devices of a report that is broken
{kind: devices, claim: a/b, request: r, deviceClass: '', wanted: all, matching: x, free: '0'}
=> claim a/b requests all of any class (r): x devices match, 0 of them free
## a claim whose devices several pods have elsewhere
{kind: allocated-claim, claim: a/b, usedBy: [a/x, a/y], usableOn: [n1, n2, n3], andMore: 2}
=> the devices of claim a/b can only be used on n1, n2, n3 and 2 more, where a/x, a/y have them
## a claim whose devices no node has
{kind: allocated-claim, claim: a/b, usedBy: [a/x]}
=> the devices of claim a/b can be used on no node
## anything else
{kind: other, reason: r, facts: {someThing: [a, b], isTrue: true, of: {here: 1, odd: [], none: null, text: ''}}}
=> some thing a, b, is true yes, of here 1
"""
CASES = SENTENCES.strip().removeprefix("## ").split("\n## ")


@pytest.mark.parametrize("case", CASES, ids=[case.splitlines()[0] for case in CASES])
def test_sentences(case: str) -> None:
    detail, sentence = case.partition("\n")[2].split("\n=> ")
    assert detail_text(msgspec.convert(yaml.safe_load(detail), Detail)) == " ".join(sentence.split("\n"))
