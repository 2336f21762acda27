"""Questions that make no sense are refused by every command, in one style: what is wrong, and the next step."""

import shlex
from pathlib import Path

import pytest

from tests.cli.commands import folder_of, invoke
from tests.commands.conftest import WEB

SHAPES = "- {name: small, cpu: 1930m, memory: 6Gi, price: 0.1}\n"
MISSPELT = SHAPES.replace("cpu:", "cpus:")
#: Command => words of the refusal, in one line.
REFUSED = """
plce => no such command 'plce'. Did you mean 'place'? hint: kplan --help lists commands
snapshot sho => no such command 'sho'
place => nothing to place
place '' => an empty path hint: name a file or a directory; . is the present one
place shop/flash-sale --with '' => an empty path
place missing.yaml => missing.yaml: no such file or directory
place web-0 => name a pod of the snapshot as NAMESPACE/NAME
place shop/flashsale => hint: did you mean shop/flash-sale?
place a/b => hint: name it as NAMESPACE/NAME, as kubectl get pods -A lists them
place batch/report-daily-knqdn => hint: kplan explain batch/report-daily-knqdn shows why
place shop/flash-sale -o xml => '-o': 'xml' is not one of 'table'
place shop/flash-sale --bogus => no such option: --bogus hint: kplan place --help lists
place shop/flash-sale --file x => --file hint: did you mean --filename?
place shop/flash-sale --snapshto x => hint: did you mean --snapshot?
place shop/flash-sale --runs abc => expected a whole number from 1 to 1,000,000, got 'abc'
place shop/flash-sale --runs 99999999999999999999 => number from 1 to 1,000,000, got '99
place shop/flash-sale --seed 1.5 => '--seed': expected a whole number, got '1.5'
place shop/flash-sale --fail-on sadness => unknown condition in --fail-on: 'sadness'
place shop/flash-sale --report jsn=x => hint: did you mean json?
place shop/flash-sale --report json => expected FORMAT=PATH
place shop/flash-sale --report json=/nowhere/x => cannot write /nowhere/x
place shop/flash-sale --replicas 3 => --replicas is for manifests
place shop/flash-sale --top -1 => '--top': expected a whole number from 1 up, got '-1'
place shop/flash-sale --scheduler-config no.yaml => no.yaml
place - -s - => standard input can be read only once
snapshot show - --with - => standard input can be read only once
place shop/voucher-api -o jsonpath={.items => --output jsonpath: a brace is not closed
config show -o jsonpath={end} => {end} ends nothing
snapshot show demo -o jsonpath={.nodes[0]} => an object is not a list
snapshot show demo -o=xml => xml
place -n nowhere => no such pending pod in namespace nowhere
place po => po: which one?
place ds/kube-system/kube-proxy => kplan explain ds/kube-system/kube-proxy
place --timeline -A => --timeline needs manifests
place shop/cart => did you mean deploy/shop/cart?
place --requests cpu=2x => --requests cpu=2x: '2x' is no amount of cpu
place --requests cpu=-1 => '-1' is no amount of cpu
place --requests cpu => expected NAME=VALUE
place --requests cpu=1 --toleration a:b => --toleration a:b: is no toleration
place --requests cpu=1 --selector a => --selector a: expected NAME=VALUE
place --requests cpu=1 shop/flash-sale => are two questions
place shop/flash-sale --toleration a => --toleration is for the pods of --requests
place shop/voucher-api --runs 5 --ties name => --runs draws between equal nodes
place shop/voucher-api --kubernetes-version 1.20 => Kubernetes 1.20 is not supported
place shop/voucher-api --feature-gates Nonsense=true => no feature gate 'Nonsense'
place shop/voucher-api --feature-gates GangScheduling=true => depends on features that are disabled
place shop/voucher-api --with none.yaml => no such file
place shop/voucher-api --without node/general-a-1* --add-nodes 1=general-a-1 => the snapshot has no node general-a-1
explain => nothing to explain
explain nobody => the snapshot has no pod default/nobody
explain deploy/shop/nobody => nobody
explain deploy => deploy: which one?
explain po deploy shop/cart => po: which one?
explain -l app=cart => no such pod in namespace default
explain node/a/b => node/a/b names neither a pod nor a workload hint: name it as
explain cart => hint: did you mean deploy/shop/cart?
explain cart -n shop => hint: did you mean deploy/shop/cart?
explain shop/chekout => did you mean deploy/shop/checkout?
explain sts/shop/cart => did you mean deploy/shop/cart?
explain voucher-api => hint: did you mean shop/voucher-api?
explain deploy/cart => hint: did you mean deploy/shop/cart?
plan --max-rounds x => invalid value for '--max-rounds'
plan --only-given => hint: name a manifest
plan --runs 5 --queue => --queue does not go with --runs
plan --timeline --queue --runs 5 => --queue does not go with --runs and --timeline
plan --until 1h => --until needs --timeline
plan --until 1h --start 5s => --start and --until need --timeline
plan --timeline --start soon => --start: not a duration: 'soon'
plan --timeline --start pod?app=web=3s => is no single workload
plan --timeline --until 400d => --until 400d: longer than a year
remedy deploy/shop/cart => no pod is pending hint: kplan explain deploy/shop/cart
plan --timeline --min-ready most => neither a number nor a percentage
plan -s demo -s demo => is about one cluster hint: name one; kplan place tells
preempt -l a=b=c => --selector a=b=c:
preempt deploy/shop/flash-sale => did you mean shop/flash-sale?
drain => no node to drain
drain no-such-node => no-such-node
drain -l pool=nothing => no node has labels pool=nothing
drain -l 'a in' => --selector a in
drain --zone mars => no node is in zone mars
drain --pool spott => hint: there are
drain general-a-1 --lost --one-by-one => two ways
drain general-a-1 --lost --one-by-one --rolling => three ways
drain general-a-1 --runbook --lost --runs 3 => --runbook does not go with --lost and --runs
drain --each --rolling => --each does not go with --rolling or --replace
drain --by colour => no node has label colour
drain --profile gke --until 1h => --profile and --until need --timeline
drain general-a-1 --surge 1 => --surge needs --timeline
drain general-a-1 --timeline --surge 1 => --surge needs --replace
drain general-a-1 --timeline --rolling --surge 1 => --surge needs --replace
drain general-a-1 --timeline --lost --surge 1 => --surge does not go with --lost
capacity => nothing to count
capacity web.yaml --mix 1:2 => has 2 numbers for 1 workload
capacity web.yaml --mix 1:x => expected numbers
capacity web.yaml --mix 0 => expected numbers
capacity web.yaml --max 2 --replicas 3 => --max 2 is below --replicas 3
capacity web.yaml shop/voucher-api => shop/voucher-api is neither a manifest nor a workload
capacity web.yaml --exclude-nodes nowhere => no node nowhere
capacity web.yaml --shapes shapes.yaml => --shapes needs --replicas
capacity web.yaml --shapes shapes.yaml --replicas 3 --preempt => --shapes does not go with --preempt
capacity web.yaml --shapes shapes.yaml --replicas 3 --max 9 => --shapes does not go with --max
capacity web.yaml --shapes misspelt.yaml --replicas 3 => $[0].cpus: unknown field 'cpus' hint: did you mean cpu?
capacity --headroom --mix 1:2 => --headroom does not go with --mix
capacity --headroom --preempt => --headroom does not go with --preempt
capacity --headroom --force => --force is for --shrink
capacity --headroom --delete-emptydir-data => --delete-emptydir-data is for --shrink
capacity --shrink web.yaml => --shrink does not go with FILE
capacity --shrink --replicas 2 => --shrink does not go with --replicas
capacity --shrink --headroom => --headroom and --shrink are two questions
capacity web.yaml --lose 1 => no such option: --lose hint: kplan drain --zone ZONE --lost
capacity web.yaml --zones => kplan check tries every one
capacity shop/cart => did you mean deploy/shop/cart?
capacity deploy/shop/serch => did you mean deploy/shop/search?
nodes web-0 -s none => name a pod of the snapshot as NAMESPACE/NAME
nodes => the cluster shows no autoscaler
nodes --autoscaler none => the cluster shows no autoscaler
nodes --node-groups groups.yaml --loops soon => --loops soon: expected seconds with commas between
nodes --node-groups groups.yaml --loops 10,0 => loops are not times in ascending order
nodes --node-groups groups.yaml --autoscaler karpenter => --node-groups is for --autoscaler cluster-autoscaler
nodes --node-groups groups.yaml --instance-types a.yaml => and --instance-types for Karpenter
nodes --node-groups groups.yaml --until 1h => --until needs --timeline
remedy nope/x => no pod nope/x
remedy batch/report-daily-knqdn => batch/report-daily-knqdn
remedy --only gossip => no kind of action: gossip
remedy --only moves --not moves => no kind of action is left
diff => nothing to compare with
diff one.json => nothing to compare with
diff a.json b.json => a.json
diff --against demo --fail-on pending => a difference fails on regression, warning or none
diff git:--output=x web.yaml => no revision
diff git:HEAD:web.yaml => such as kplan diff git:HEAD web.yaml
diff -k none --against-manifests git:HEAD => no such directory
pods => no manifest given
pods shop/flash-sale => shop/flash-sale is not a manifest
show => missing argument 'FILE' hint: kplan show --help lists arguments and options
show no.json => no.json
schema Nonsense => Nonsense
config check => nothing to check
snapshot show no.json => no.json
snapshot save x.txt -s /no/such/cluster.json => the name has no known extension
completion tcsh => tcsh
"""
CASES = [line.split(" => ") for line in REFUSED.strip().splitlines()]


@pytest.mark.parametrize(("command", "words"), CASES, ids=[command for command, _ in CASES])
def test_it_is_told_what_is_wrong_and_what_to_do(
    command: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"web.yaml": WEB, "shapes.yaml": SHAPES, "misspelt.yaml": MISSPELT, "groups.yaml": "nodeGroups: []\n"}
    folder_of(tmp_path, files)
    found = invoke(*shlex.split(command), KUBECONFIG="")
    assert (found.exit_code, found.stdout) == (2, "")
    assert words in " ".join(found.stderr.split())
    assert found.stderr.startswith("error: ")
    assert "\nhint: " in found.stderr
    assert all(line.startswith(("error: ", "hint: ")) for line in found.stderr.splitlines())
