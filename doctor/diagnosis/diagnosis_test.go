package diagnosis

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/callouts"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/requests"
	"github.com/ccmadm/ccmadm/templates"
)

// words are a diagnosis in short: each cause with how many objects have it, and what follows from it.
func words(d *Diagnosis) string {
	var list []string
	for _, c := range d.Causes {
		parts := []string{fmt.Sprintf("%s(%d)", c.ID, len(c.Objects))}
		for _, k := range c.Consequences {
			parts = append(parts, fmt.Sprintf("%s(%d)", k.ID, len(k.Objects)))
		}
		list = append(list, strings.Join(parts, ">"))
	}
	return strings.Join(list, " ")
}

func TestDiagnose_HealthyInEachMode(t *testing.T) {
	for _, mode := range []templates.Mode{templates.StaticPod, templates.DaemonSet, templates.Deployment} {
		d := Diagnose(newSnapshot(mode, 3))
		if len(d.Causes) > 0 || len(d.NotLooked) > 0 {
			t.Errorf("%s: got %s, not looked for %v", mode, words(d), d.NotLooked)
		}
		if _, warnings := d.Count(); warnings > 0 || !strings.Contains(d.Summary, "4 Nodes, 4 Ready, Kubernetes v1.36.3") ||
			!strings.Contains(d.Summary, "(aws), led by cp1_8c1b") {
			t.Errorf("%s: got summary %q", mode, d.Summary)
		}
	}
}

// TestDiagnose_KubeadmNotSeen: what is judged by kubeadm's configuration is said not to have been looked for.
func TestDiagnose_KubeadmNotSeen(t *testing.T) {
	d := Diagnose(newSnapshot(templates.Deployment, 1, func(s *Snapshot) {
		s.NotSeen = []NotSeen{{What: partKubeadm, Message: "it took too long"}}
	}))
	want := []string{
		"Services that every cluster depends on", "components that kubeadm made", "members of etcd", "networks that Nodes are given", "requests",
		"settings of several places", "what is switched off",
	}
	if got := slices.Sorted(maps.Keys(d.NotLooked)); !slices.Equal(got, want) {
		t.Errorf("not looked for: got %q, want %q", got, want)
	}
}

func TestDiagnose(t *testing.T) {
	crash := func(line string) []func(*Snapshot) {
		return []func(*Snapshot){tainted, leaderless, waiting("CrashLoopBackOff", "back-off"), logged("starting", line)}
	}
	tests := []struct {
		name    string
		changes []func(*Snapshot)
		want    string
	}{
		{"no toleration at all: the nearest Node lacks the taint of new ones only", []func(*Snapshot){
			tainted, leaderless, unplaced(tolerates(v1alpha1.ControlPlaneLabel)),
		}, "B1(1)>W22(11)"},
		{"no toleration for not-ready", []func(*Snapshot){
			tainted, leaderless, notReady, unplaced(tolerates(v1alpha1.ControlPlaneLabel), tolerates(v1alpha1.UninitializedTaint)),
		}, "B2(1)>W22(11)"},
		{"selects what kubeadm does not make", []func(*Snapshot){tainted, leaderless, unplaced(tolerates("")), selecting("node-role.kubernetes.io/master")}, "B4(1)>W22(11)"},
		{"image", []func(*Snapshot){tainted, leaderless, waiting("ImagePullBackOff", "not found")}, "W25(11)"},
		{"a Secret is missing", []func(*Snapshot){
			tainted, leaderless, waiting("CreateContainerConfigError", `secret "cloud-config" not found`),
		}, "D1(1)>W24(11)"},
		{"a Secret to mount is missing", []func(*Snapshot){
			tainted, leaderless, waiting("ContainerCreating", ""),
			event("ccm-x7k2p", "FailedMount", `MountVolume.SetUp failed for volume "c" : secret "cloud-config" not found`),
		}, "D1(1)>W24(11)"},
		{"the namespace forbids its pods, and one was evicted", []func(*Snapshot){
			tainted, leaderless, func(s *Snapshot) { s.Pods[0].Status.Phase = corev1.PodFailed },
			event("ccm-5d9f", "FailedCreate", `pods "ccm-5d9f-" is forbidden: violates PodSecurity "restricted:latest": host namespaces`),
		}, "B6(1)>W20(11)"},
		{"the namespace forbids its pods", []func(*Snapshot){
			tainted, leaderless, func(s *Snapshot) { s.Pods = nil },
			event("ccm-5d9f", "FailedCreate", `pods "ccm-5d9f-" is forbidden: violates PodSecurity "restricted:latest": host namespaces`),
		}, "B6(1)>W20(11)"},
		{"a webhook that nobody serves", []func(*Snapshot){
			tainted, leaderless, func(s *Snapshot) { s.Pods = nil }, webhook(0),
			event("ccm-5d9f", "FailedCreate", `Internal error occurred: failed calling webhook "pods.example.org"`),
		}, "B7(1)>W20(11)"},
		{"a quota refuses its pods", refusedBy(`pods "ccm-5d9f-" is forbidden: exceeded quota: none, requested: pods=1`), "Q9(1)>W20(11)"},
		{"no PriorityClass of its pods", refusedBy(`pods "ccm-5d9f-" is forbidden: no PriorityClass with name high was found`), "Q9(1)>W20(11)"},
		{"a policy refuses its pods", refusedBy(`admission webhook "validate.kyverno.svc-fail" denied the request: host network`), "Q9(1)>W20(11)"},
		{"etcd is why it has no pod", refusedBy("etcdserver: request timed out"), "W20(11)"},
		{"a webhook that is served", []func(*Snapshot){webhook(2)}, ""},
		{"a webhook of which that is not known", []func(*Snapshot){webhook(-1)}, ""},
		{"a webhook for another namespace that does not answer, and is why a write is refused", []func(*Snapshot){
			callout(func(c *callouts.Callout) { c.Fails = "x509: certificate signed by unknown authority" }),
			refusal(`failed calling webhook "gate.example.org": x509`),
		}, "Q14(1)>Q9(1)"},
		{"a webhook that does not answer, and something else refuses a write", []func(*Snapshot){
			callout(func(c *callouts.Callout) { c.Fails = "timeout" }), refusal("exceeded quota: none"),
		}, "Q14(1) Q9(1)"},
		{"a webhook for another namespace without endpoint", []func(*Snapshot){callout(func(c *callouts.Callout) { c.Ready = 0 })}, "B7(1)"},
		{"a webhook for another namespace that answers", []func(*Snapshot){callout(func(*callouts.Callout) {})}, ""},
		{"port taken", crash("failed to create listener: failed to listen on 0.0.0.0:10258: listen tcp 0.0.0.0:10258: bind: address already in use"), "B10(1)>W26(11)"},
		{"a flag that is gone", crash("Error: unknown flag: --port"), "B13(1)>W26(11)"},
		{"no cluster ID, as AWS says it", crash(`Cloud provider could not be initialized: could not init cloud provider "aws": AWS cloud failed to find ClusterID`), "B17(1)>W26(11)"},
		{"no cluster CIDR", crash("error running controllers: invalid CIDR[0]: <nil> (invalid CIDR address: )"), "F1(1)>W26(11)"},
		{"the cloud's name, asked of a DNS that waits for it", append(
			crash(`Post "https://api.example.org/": dial tcp: lookup api.example.org on 10.96.0.10:53: i/o timeout`), clusterDNS(0),
		), "C3(1)>W26(11)"},
		{"the cloud's name, asked of a DNS that kube-proxy's rules refuse", append(
			crash(`Post "https://api.example.org/": dial tcp: lookup api.example.org on 10.96.0.10:53: write udp 192.0.2.1:48752->10.96.0.10:53: write: operation not permitted`), clusterDNS(0),
		), "C3(1)>W26(11)"},
		{"the cloud's name, asked of a DNS that runs: not decided", append(
			crash(`Post "https://api.example.org/": dial tcp: lookup api.example.org on 10.96.0.10:53: i/o timeout`), clusterDNS(2),
		), "W26(11)"},
		{"the API server's name, asked of the machine", crash(`E1122 error retrieving resource lock kube-system/ccm: Get "https://cp.example.org:6443/apis/` +
			`coordination.k8s.io/v1/namespaces/kube-system/leases/ccm": dial tcp: lookup cp.example.org on 192.0.2.53:53: no such host`), "W26(11)"},
		{"a proxy's name", crash(`Post "https://api.example.org/": proxyconnect tcp: dial tcp: lookup proxy.corp on 192.0.2.53:53: no such host`), "W26(11)"},
		{"the cloud's name, asked of the machine", crash(`dial tcp: lookup api.example.org on 192.0.2.53:53: no such host`), "C6(1)>W26(11)"},
		{"a line that nobody knows", crash("F1122 panic: index out of range"), "W26(11)"},
		{"credentials, of a manager that leads", []func(*Snapshot){
			tainted, logged("error syncing 'w1': failed to get instance metadata for node w1: UnauthorizedOperation: 403, requeuing"),
		}, "D3(1)>W9(10)>W10(1)"},
		{"credentials that are accepted again", []func(*Snapshot){tainted, logged(
			"error syncing 'w1': failed to get instance metadata for node w1: UnauthorizedOperation: 403, requeuing",
			"error syncing 'w1': failed to get instance metadata for node w1: instance not found, requeuing",
		)}, "W9(10) W10(1)"},
		{"a permission", []func(*Snapshot){tainted, denied("update", "", "nodes")}, "D8(11)"},
		{"a permission for the Lease, by the log", []func(*Snapshot){tainted, leaderless, denied("get", "coordination.k8s.io", "leases")}, "D6(11)"},
		{"the leader is silent, and nothing else", []func(*Snapshot){stale}, "W7(1)"},
		{"the leader is silent, and a Service waits", []func(*Snapshot){stale, service("web", time.Hour), service("old", 2*time.Hour, deleted)}, "W7(1)>G4(1)>G1(1)"},
		{"two managers", []func(*Snapshot){secondManager}, "H2(1)"},
		{"two managers with different arguments and one Lease", []func(*Snapshot){competitor("--concurrent-node-syncs=9")}, "H6(1)"},
		{"two parts of one manager, with one Lease", []func(*Snapshot){competitor()}, ""},
		{"one provider ID twice", []func(*Snapshot){func(s *Snapshot) { s.Nodes[2].Spec.ProviderID = s.Nodes[1].Spec.ProviderID }}, "N7(1)"},
		{"a name changed, and the provider ID is the same", []func(*Snapshot){renamed, func(s *Snapshot) {
			s.Nodes[2].Spec.ProviderID = s.Nodes[1].Spec.ProviderID
		}}, "N4(1)>W14(1)>N7(1)"},
		{"certificate requests that kube-controller-manager leaves undone", []func(*Snapshot){func(s *Snapshot) {
			s.Components = &components.Seen{}
			r := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1", CreationTimestamp: ago(time.Hour)}}
			r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
			s.Undone = append(s.Undone, r)
		}}, "I4(1)"},
		{"a kubelet without the flag", []func(*Snapshot){untainted, flag("w1", "")}, "A1(1)"},
		{"a kubelet that has the flag now", []func(*Snapshot){untainted, flag("w1", "external")}, "W2(1)"},
		{"an initialized one that has lost the flag", []func(*Snapshot){flag("w2", "")}, "W18(1)"},
		{"a kubelet is silent", []func(*Snapshot){func(s *Snapshot) { s.Heartbeats[3].Spec.RenewTime.Time = taken.Add(-2 * time.Minute) }}, "W14(1)"},
		{"a Node was deleted under its kubelet", []func(*Snapshot){func(s *Snapshot) { s.Nodes = s.Nodes[:10] }}, "N1(1)"},
		{"a name changed", []func(*Snapshot){renamed}, "N4(1)>W14(1)"},
		{"a route failed", []func(*Snapshot){func(s *Snapshot) {
			s.Nodes[2].Status.Conditions = append(s.Nodes[2].Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated", LastTransitionTime: ago(time.Hour),
			})
		}}, "F3(1)"},
		{"routes without pod networks", []func(*Snapshot){args("--configure-cloud-routes=true")}, "F5(11)"},
		{"one pod network twice", []func(*Snapshot){func(s *Snapshot) {
			s.Nodes[1].Spec.PodCIDRs, s.Nodes[2].Spec.PodCIDRs = []string{"10.244.1.0/24"}, []string{"10.244.1.0/24"}
		}}, "F6(1)"},
		{"switched off, and Ready", []func(*Snapshot){func(s *Snapshot) {
			s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint, Effect: corev1.TaintEffectNoSchedule}}
		}}, "N2(1)"},
		{"no zone", []func(*Snapshot){func(s *Snapshot) { s.Nodes[2].Labels = nil }}, "N3(1)"},
		{"versions", []func(*Snapshot){func(s *Snapshot) { s.Nodes[2].Status.NodeInfo.KubeletVersion = "v1.37.0" }}, "N5(1)"},
		{"all Nodes excluded", []func(*Snapshot){service("web", time.Hour), func(s *Snapshot) {
			for i := range s.Nodes {
				s.Nodes[i].Labels[v1alpha1.ExcludeLabel] = ""
			}
		}}, "G2(1)"},
		{"a Service that is new", []func(*Snapshot){service("web", time.Minute)}, ""},
		{"a Service of another class", []func(*Snapshot){otherClass}, "G1(1)"},
		{"a Service of another class, and no leader", []func(*Snapshot){stale, otherClass}, "W7(1) G1(1)"},
		{"serving certificates", []func(*Snapshot){certificateRequests(3)}, "I2(3)"},
		{"two faults", []func(*Snapshot){stale, webhook(0)}, "B7(1) W7(1)"},
		{"pods not seen: no word that there are none", []func(*Snapshot){tainted, leaderless, without(partPods, partDeployments)}, "W13(1) W6(11)"},
		{"Leases not seen: no word that nobody leads", []func(*Snapshot){without(partLeases)}, "W15(1)"},
		{"Nodes not seen", []func(*Snapshot){without(partNodes)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 10, tt.changes...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
				var text bytes.Buffer
				if err := d.WriteText(&text, false); err == nil {
					t.Log(text.String())
				}
			}
			for _, c := range d.Causes {
				if c.Do == "" || c.Message == "" || c.Next == c.Do {
					t.Errorf("%s says too little: %q, do %q, next %q", c.ID, c.Message, c.Do, c.Next)
				}
			}
		})
	}
}

// refusedBy has a manager without pods, since the API server refuses them in these words.
func refusedBy(words string) []func(*Snapshot) {
	return []func(*Snapshot){tainted, leaderless, func(s *Snapshot) { s.Pods = nil }, event("ccm-5d9f", "FailedCreate", "Error creating: "+words)}
}

// TestDiagnose_NotMade: a manager whose pods are refused is there, what refuses them is named, and rendering it again would change nothing.
func TestDiagnose_NotMade(t *testing.T) {
	made := func(s *Snapshot) {
		s.Provider = cloud
		s.Deployments[0].Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	}
	for words, next := range map[string]string{
		`pods "ccm-5d9f-" is forbidden: exceeded quota: none, requested: pods=1`:    "kubectl -n kube-system describe resourcequota none",
		`pods "ccm-5d9f-" is forbidden: no PriorityClass with name high was found`:  "kubectl get priorityclasses",
		`admission webhook "validate.kyverno.svc-fail" denied the request: no host`: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml | grep -B 30 'name: validate.kyverno.svc-fail$'",
		"etcdserver: request timed out":                                             "kubectl -n kube-system describe deployment ccm",
	} {
		list := Diagnose(newSnapshot(templates.Deployment, 3, append(refusedBy(words), made)...)).Causes
		if len(list) != 1 || list[0].Next != next || !strings.Contains(list[0].Message, words) {
			t.Errorf("%s: got %+v", words, list)
		}
	}
}

func otherClass(s *Snapshot) {
	service("web", time.Hour, func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.org/lb") })(s)
}

func notReady(s *Snapshot) {
	for i := range s.Nodes {
		s.Nodes[i].Spec.Taints = append(s.Nodes[i].Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
}

func selecting(label string) func(*Snapshot) {
	return func(s *Snapshot) { s.Deployments[0].Spec.Template.Spec.NodeSelector = map[string]string{label: ""} }
}

func webhook(ready int) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Webhooks = []Webhook{{
			Object: "ValidatingWebhookConfiguration/policy", Name: "pods.example.org", Guards: []string{"pods"}, Namespace: "policy",
			Service: "policy", Ready: ready,
		}}
	}
}

func callout(change func(*callouts.Callout)) func(*Snapshot) {
	return func(s *Snapshot) {
		c := callouts.Callout{
			Object: "ValidatingWebhookConfiguration/gate", Name: "gate.example.org", Guards: []string{"pods"}, Namespaces: []string{"shop"},
			Namespace: "gate", Service: "gate", Closed: true, Timeout: 10, Ready: 1,
		}
		change(&c)
		s.Callouts = []callouts.Callout{c}
	}
}

func refusal(message string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Served = &requests.Seen{Refused: []requests.Refusal{{Write: "new pod", Message: message}}}
	}
}

// clusterDNS has the manager ask the cluster's name server, of which so many pods are ready.
func clusterDNS(ready int) func(*Snapshot) {
	return func(s *Snapshot) {
		s.DNS.Ready = ready
		s.Deployments[0].Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
}

func denied(verb, group, resource string) func(*Snapshot) {
	return func(s *Snapshot) {
		ask := authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}
		if resource == "leases" {
			ask.Namespace, ask.Name = v1alpha1.Namespace, v1alpha1.LeaseName
		}
		s.Reviews = []nodes.Review{{User: "system:serviceaccount:kube-system:ccm", Asked: ask, Answer: "no"}}
	}
}

// away has a machine that has gone two minutes ago.
func away(i int) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Nodes[i].Status.Conditions[0].Status = corev1.ConditionUnknown
		s.Heartbeats[i].Spec.RenewTime.Time = taken.Add(-2 * time.Minute)
	}
}

func stale(s *Snapshot) { s.Leases[0].Spec.RenewTime.Time = taken.Add(-time.Hour) }

func secondManager(s *Snapshot) {
	p := pod("old-ccm-1", "w1")
	p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "--leader-elect-resource-name=old")
	s.Pods = append(s.Pods, p)
	s.Leases = append(s.Leases, lease(v1alpha1.Namespace, "old", "w1_1", time.Second))
}

// competitor is another workload with the arguments of the manager and some more, which asks for the same Lease.
func competitor(args ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		p := pod("other-ccm-1", "w1")
		p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, args...)
		s.Pods = append(s.Pods, p)
	}
}

// A controller that is switched off explains what that one does not do, and nothing else.
func TestOfController(t *testing.T) {
	all := []finding.ID{finding.NotSigned, finding.ClientRequest}
	f := finding.ControllerOff.New("Node/cp1", "kube-controller-manager has --controllers without csrsigning (x), daemonset (y)")
	if got := ofController()(nil, &f, all); !slices.Equal(got, []finding.ID{finding.NotSigned}) {
		t.Errorf("got %v", got)
	}
}

func untainted(s *Snapshot) { s.Nodes[1].Spec.ProviderID = "" }

func flag(node, mode string) func(*Snapshot) {
	return func(s *Snapshot) { s.Flags = map[string]string{node: mode} }
}

func renamed(s *Snapshot) {
	old := &s.Nodes[2]
	old.Status.NodeInfo = s.Nodes[1].Status.NodeInfo
	old.Status.Conditions[0].Status = corev1.ConditionUnknown
	old.Status.Conditions[0].LastHeartbeatTime = ago(65 * time.Minute)
	s.Heartbeats[2].Spec.RenewTime.Time = taken.Add(-65 * time.Minute)
}

func args(list ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		c := &s.Deployments[0].Spec.Template.Spec.Containers[0]
		c.Args = append(c.Args, list...)
	}
}

func certificateRequests(n int) func(*Snapshot) {
	return func(s *Snapshot) {
		for i := range n {
			r := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csr-%d", i), CreationTimestamp: ago(time.Hour)}}
			r.Spec.Username = fmt.Sprintf("system:node:w%d", i+1)
			s.Requests = append(s.Requests, r)
		}
	}
}
