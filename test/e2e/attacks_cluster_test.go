package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// besiegers are what the tenant has, and the honest Services: two with addresses of a pool around the control plane's address, one
// with those of Nodes. Their pods are on w1; w2 is the attackers'.
const besiegers = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: lan}
spec: {ranges: ["%[1]s-%[2]s"], level: L2, reuseAfter: 2s}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tenant, labels: {pod-security.kubernetes.io/enforce: baseline}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: tenant, namespace: tenant}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: tenant, namespace: tenant}]
---
apiVersion: v1
kind: Pod
metadata: {name: thief, namespace: tenant, labels: {app: thief}}
spec:
  nodeName: w2
  containers: [{name: thief, image: %[3]s, imagePullPolicy: Never}]
`

// besiege makes the cluster, and starts to ask.
func besiege(t *testing.T) *besieged {
	t.Helper()
	answerer := buildProgram(t, "answerer")
	l := up(t, "attacks", 1, 3, "--image", agentImage, "--binary", buildProgram(t, "witness"))
	l.run(t, "load", "--name", l.name, answererArchive(t, answerer))
	vip := l.inSubnet(t, 240).String()
	l.must(t, "cp1", ccmadmInit+" --node-agent --control-plane-vip "+vip)
	join := l.joinCommand(t)
	l.must(t, "w1", join) // before w2, as the attackers' Node is the younger one
	l.must(t, "w2", join)
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	for _, machine := range l.nodes { // other programs of the machines
		l.must(t, machine, "systemd-run --quiet --collect --unit witness witness serve 22 9100")
	}
	l.must(t, clientMachine, "systemd-run --quiet --collect --unit page witness serve 80")
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
	l.apply(t, fmt.Sprintf(besiegers, l.inSubnet(t, 230), l.inSubnet(t, 249), answererImage))
	for _, name := range []string{"lan-a", "lan-b", "nodes"} {
		l.pod(t, "honest-"+name, name, "w1")
	}
	l.serve(t, "lan-a", "lan-a", "TCP", `"type": "LoadBalancer"`)
	l.serve(t, "lan-b", "lan-b", "TCP", `"type": "LoadBalancer"`)
	l.kubectl(t, "annotate service lan-a "+v1alpha1.ShareKeyAnnotation+"=common")
	l.apply(t, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "nodes", "annotations": {"`+v1alpha1.LevelAnnotation+`": "NodeIP"}},
 "spec": {"type": "LoadBalancer", "selector": {"app": "nodes"}, "ports": [{"port": 80, "targetPort": 8080}]}}`)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod --all")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod -n tenant thief")
	b := &besieged{lab: l}
	b.prepare(t, vip)
	return b
}

// prepare gives the attackers what they need to know, and has machines ask who answers.
func (b *besieged) prepare(t *testing.T, vip string) {
	t.Helper()
	b.waitAddress(t, "lan-a")
	b.waitAddress(t, "lan-b")
	eventually(t, time.Minute, "honest Services have their addresses", func() bool {
		b.before = b.honest(t)
		return len(b.before) == 3 && len(b.before[2].Status.LoadBalancer.Ingress) == 2
	})
	b.must(t, "cp1", `cd /run; for f in client-certificate client-key; do awk -v k="$f-data:" '$1 == k {print $2}' /etc/kubernetes/admin.conf | base64 -d > $f; done
mv client-certificate admin.crt; mv client-key admin.key; chmod 600 admin.key`)
	token := strings.TrimSpace(b.kubectl(t, "-n tenant create token tenant --duration 1h"))
	b.must(t, "w2", "install -m 600 /dev/null /run/tenant.token; echo "+token+" > /run/tenant.token")
	agent := func(node, field string) string {
		return strings.TrimSpace(b.kubectl(t, "-n kube-system get pod -l app.kubernetes.io/name="+v1alpha1.AgentName+
			" --field-selector spec.nodeName="+node+" -o jsonpath='{.items[0].metadata."+field+"}'"))
	}
	at := map[string]string{}
	for _, machine := range b.nodes {
		at[machine] = b.address(t, machine)
	}
	lanA, lanB, nodes := &b.before[0], &b.before[1], &b.before[2]
	gateway := strings.TrimSpace(b.must(t, "w2", "ip route show default | cut -d' ' -f3"))
	b.variables = []string{
		"{vip}", vip, "{cp1}", at["cp1"], "{w1}", at["w1"], "{w2}", at["w2"], "{w3}", at["w3"], "{gateway}", gateway,
		"{lan-a}", lanA.Status.LoadBalancer.Ingress[0].IP, "{lan-b}", lanB.Status.LoadBalancer.Ingress[0].IP,
		"{nobodys}", b.inSubnet(t, 77).String(), "{clusterip}", lanA.Spec.ClusterIP, `"{nodeport}"`, fmt.Sprint(nodes.Spec.Ports[0].NodePort),
		"{agentuid}", agent("w2", "uid"), "{agentofw1}", agent("w1", "name"), "{uidofw1}", agent("w1", "uid"),
		"{macofw1}", strings.TrimSpace(b.must(t, "w1", "cat /sys/class/net/eth0/address")),
		"{podofw1}", strings.TrimSpace(b.kubectl(t, "get pod honest-lan-a -o jsonpath='{.status.podIP}'")),
		"{csr}", certificateRequest(t, "w2", at["w2"], vip), "{csrofw1}", certificateRequest(t, "w1"),
	}
	targets := []target{
		{"tls://" + vip + ":6443", b.certificateOf(t, "/etc/kubernetes/pki/apiserver.crt")},
		{"tls://" + at["cp1"] + ":6443", b.certificateOf(t, "/etc/kubernetes/pki/apiserver.crt")},
		{"http://" + lanA.Status.LoadBalancer.Ingress[0].IP + ":80", "honest-lan-a"},
		{"http://" + lanB.Status.LoadBalancer.Ingress[0].IP + ":80", "honest-lan-b"},
		{"http://" + at["w1"] + ":80", "honest-nodes"},
		{fmt.Sprintf("http://%s:%d", at["w1"], nodes.Spec.Ports[0].NodePort), "honest-nodes"},
		{"http://" + b.inSubnet(t, 77).String() + ":80", ""},
		{"http://203.0.113.7:80", ""},
		{"http://" + at[clientMachine] + ":80", clientMachine},
		{"http://" + vip + ":80", ""},
		{"http://" + at["cp1"] + ":80", ""},
		{"http://" + gateway + ":80", ""},
	}
	for _, machine := range b.nodes {
		targets = append(targets, target{"http://" + at[machine] + ":22", machine})
	}
	for _, machine := range []string{"w1", clientMachine} {
		targets = append(targets, target{"http://" + at[machine] + ":9100", machine})
	}
	machines := []string{clientMachine, "cp1", "w1"}
	b.places = len(machines)
	b.witnesses = b.watch(t, machines, targets)
	begun := time.Now()
	eventually(t, 30*time.Second, "all answer for themselves before the attacks", func() bool { return b.witnesses.wrong(begun, b.places) == "" })
	b.witnesses.thefts() // from before they all were there
}

// honest are the Services that are to be untouched, by their names.
func (b *besieged) honest(t *testing.T) []corev1.Service {
	t.Helper()
	var list corev1.ServiceList
	if err := json.Unmarshal([]byte(b.kubectl(t, "get services lan-a lan-b nodes -o json")), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].ManagedFields, list.Items[i].ResourceVersion = nil, ""
	}
	return list.Items
}

// certificateOf is the SHA-256 of the first certificate in a file of cp1.
func (b *besieged) certificateOf(t *testing.T, path string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(b.must(t, "cp1", "cat "+path)))
	if block == nil {
		t.Fatalf("%s has no certificate", path)
	}
	return fmt.Sprintf("%x", sha256.Sum256(block.Bytes))
}

// relieve deletes what the attackers have made, and wants everything as it was.
func (b *besieged) relieve(t *testing.T) {
	t.Helper()
	if issued := b.kubectl(t, "get csr attack-serving -o jsonpath='{.status.certificate}'"); issued != "" {
		t.Error("a kubelet has got a certificate for the control plane's address")
	}
	b.must(t, "cp1", `for s in $(`+admin+`-n tenant get services -o name); do `+admin+`-n tenant patch $s --type merge -p '{"metadata":{"finalizers":null}}'; done;
`+admin+"delete namespace tenant --timeout=120s; "+admin+"delete csr --all")
	eventually(t, time.Minute, "nothing of the attackers is left", func() bool {
		claims := strings.Fields(b.kubectl(t, "get ipaddresses -l ipaddress.kubernetes.io/managed-by="+v1alpha1.ClaimManager+" -o name"))
		rules := 0
		for _, machine := range []string{"cp1", "w1", "w2"} {
			rules += strings.Count(b.must(t, machine, "nft list ruleset"), "tenant/")
		}
		return len(claims) == 2 && rules == 0
	})
	b.kubectl(t, "wait --for=condition=Ready --timeout=60s node cp1 w1 w2")
	eventually(t, time.Minute, "the Services are as they were, and announced", func() bool {
		announced := b.kubectl(t, announcedAddresses)
		now := b.honest(t)
		for _, s := range b.before[:2] {
			if !strings.Contains(announced, s.Status.LoadBalancer.Ingress[0].IP) {
				return false
			}
		}
		return cmp.Equal(b.before, now)
	})
	if diff := cmp.Diff(b.before, b.honest(t)); diff != "" {
		t.Errorf("honest Services: -before +after:\n%s", diff)
	}
	if pool := b.kubectl(t, "get addresspool lan -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'"); pool != "True" {
		t.Errorf("the pool is Ready=%s", pool)
	}
	b.expectOthersServed(t, "after all", time.Now())
	t.Logf("%d questions were asked", b.witnesses.asked)
}
