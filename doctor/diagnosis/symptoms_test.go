package diagnosis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/templates"
)

// The texts of docs/troubleshooting.md about a manager's log are what detectors find there.
func TestSymptoms_FindWhatTheDocumentationSays(t *testing.T) {
	documented := map[finding.ID]bool{}
	for _, s := range finding.Symptoms() {
		if !strings.Contains(s.Where, "log") {
			continue
		}
		for _, mine := range symptoms() {
			if mine.id == s.IDs[0] && mine.says(s.Text) {
				documented[mine.id] = true
			}
		}
	}
	for _, mine := range symptoms() {
		if !documented[mine.id] && mine.id != finding.CloudNotFound { // it stands second: the same text as C3
			t.Errorf("%s: no documented line of a log matches %s", mine.id, mine.pattern)
		}
	}
}

// TestSymptoms_WhoseAddress: a cloud at port 443 that does not answer is not the API server.
func TestSymptoms_WhoseAddress(t *testing.T) {
	const sync = "E1122 error syncing 'w1': failed to get instance metadata for node w1: "
	const cloud, service = "W9(3) W10(1)", "C2(1)>W9(3)>W10(1)"
	for line, want := range map[string]string{
		`Post "https://vcenter.example.com:443/sdk": dial tcp 10.20.0.5:443: i/o timeout`:          cloud,
		`Post "https://10.20.0.5:443/sdk": dial tcp 10.20.0.5:443: i/o timeout`:                    cloud,
		`Post "https://10.20.0.5:443/v3/auth/tokens": dial tcp 10.20.0.5:443: i/o timeout`:         cloud,
		`Get "https://cloud.example.com:443/api/servers": dial tcp 10.20.0.5:443: i/o timeout`:     cloud,
		`Get "https://10.96.0.1:443/api/v1/nodes/w1": dial tcp 10.96.0.1:443: i/o timeout`:         service,
		`Get "https://[fd00::1]:443/apis/x": dial tcp [fd00::1]:443: connect: no route to host`:    service,
		`Get "https://10.96.0.1:443/version": dial tcp 10.96.0.1:443: connect: connection refused`: service,
	} {
		if got := words(Diagnose(newSnapshot(templates.DaemonSet, 3, tainted, logged(sync+line)))); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

// TestSymptoms_Works: credentials may be revoked while the manager leads, and no Node waits for it.
func TestSymptoms_Works(t *testing.T) {
	pending := service("shop", time.Hour)
	ms := func(before time.Duration) string { // as component-base/logs/json encodes it
		return strconv.FormatFloat(float64(taken.Add(-before).UnixNano())/float64(time.Millisecond), 'f', -1, 64)
	}
	millis, hourAgo := ms(10*time.Second+1234567), ms(time.Hour)
	const refused = "1 controller.go:302] error processing service default/shop (retrying with exponential backoff): failed to ensure load balancer: " +
		"Authentication failed: 401 unauthorized"
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"a Service waits", faults{pending, logged("E1122 08:59:50.000000 " + refused)}, "D3(1)>G1(1)"},
		{"nothing waits", faults{logged("E1122 08:59:51.1 1 node_lifecycle_controller.go:180] error checking if node w1 exists: AuthFailure: denied")}, "D3(1)"},
		{"in JSON of Kubernetes", faults{logged(`{"ts":` + millis + `,"caller":"x.go:1","msg":"error syncing 'w1': failed to get instance metadata: 403"}`)}, "D3(1)"},
		{"in its JSON, of an hour ago", faults{logged(`{"ts":` + hourAgo + `,"msg":"error syncing 'w1': failed to get instance metadata: 403"}`)}, ""},
		{"in other JSON", faults{logged(`{"ts":"2026-11-22T08:59:50Z","msg":"error syncing 'w1': failed to get instance metadata: 403"}`)}, "D3(1)"},
		{"of an hour ago", faults{logged("E1122 07:59:50.000000 " + refused)}, ""},
		{"without a time", faults{logged(refused)}, ""},
		{"it was granted since", faults{logged("E1122 08:58:50.000000 "+refused, "I1122 08:59:50.000000 1 controller.go:9] Ensured load balancer")}, ""},
		{"a quota is used up", faults{logged("E1122 08:59:50.1 1 controller.go:302] error processing service shop/web (retrying with exponential backoff): " +
			"failed to ensure load balancer: Expected HTTP response code [200], but got 403 instead: Quota has been met for resources: Load Balancer")}, ""},
		{"GCP's quota", faults{logged("E1122 08:59:50.1 1 controller.go:302] failed to ensure load balancer: googleapi: Error 403: rateLimitExceeded")}, ""},
		{"a name with a number", faults{logged("E1122 08:59:50.1 1 x.go:1] error syncing 'worker-403': failed to get node modifiers: timeout, requeuing")}, ""},
		{"a name that is a number", faults{logged("E1122 08:59:50.1 1 x.go:1] error syncing '403': failed to get node modifiers: timeout, requeuing")}, ""},
		{"a path with a number", faults{logged("E1122 08:59:50.1 1 x.go:1] error syncing 'w1': Get \"https://nova/v2/403\": EOF, requeuing")}, ""},
		{"a webhook's certificate", faults{logged(`E1122 08:59:50.1 1 event.go:359] "Server rejected event (will not retry!)" err="Internal error occurred: ` +
			`failed calling webhook \"policy.example.com\": failed to call webhook: tls: failed to verify certificate: x509: certificate signed by ` +
			`unknown authority"`)}, ""},
		{"the cloud's certificate", faults{logged("E1122 08:59:50.1 1 x.go:1] Post \"https://keystone/v3\": x509: certificate signed by unknown authority")}, "C5(1)"},
		{"what shows while a Node waits only", faults{logged("F1122 08:59:50.000000 1 x.go:1] unknown flag: --port")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestEmptied: commands about etcd go by what kubeadm's configuration says of it.
func TestEmptied(t *testing.T) {
	const line = "etcdserver: mvcc: database space exceeded"
	for _, tt := range []struct{ name, config, object, prefix string }{
		{"kubeadm's", "kind: ClusterConfiguration\n", "Pod/kube-system/etcd-cp1", "kubectl -n kube-system exec etcd-cp1 -- etcdctl " +
			"--endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt " +
			"--key=/etc/kubernetes/pki/etcd/healthcheck-client.key compact $("},
		{"another directory", "kind: ClusterConfiguration\ncertificatesDir: /srv/pki\n", "Pod/kube-system/etcd-cp1", "kubectl -n kube-system exec " +
			"etcd-cp1 -- etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/srv/pki/etcd/ca.crt --cert=/srv/pki/etcd/healthcheck-client.crt " +
			"--key=/srv/pki/etcd/healthcheck-client.key compact $("},
		{
			"external", "kind: ClusterConfiguration\netcd:\n  external:\n    endpoints: [https://192.0.2.7:2379, https://192.0.2.8:2379]\n" +
				"    caFile: /etc/etcd/ca.crt\n    certFile: /etc/etcd/client.crt\n    keyFile: /etc/etcd/client.key\n", "Deployment/kube-system/ccm",
			"on cp1: etcdctl --endpoints=https://192.0.2.7:2379,https://192.0.2.8:2379 --cacert=/etc/etcd/ca.crt --cert=/etc/etcd/client.crt " +
				"--key=/etc/etcd/client.key compact $(etcdctl ",
		},
		{
			"external without TLS", "kind: ClusterConfiguration\netcd: {external: {endpoints: [http://192.0.2.7:2379]}}\n", "Deployment/kube-system/ccm",
			"on cp1: etcdctl --endpoints=http://192.0.2.7:2379 compact $(etcdctl ",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newView(newSnapshot(templates.Deployment, 2, tainted, leaderless, logged(line), func(s *Snapshot) { s.Kubeadm = redactKubeadm(tt.config) }))
			list := symptomsInLog(v)
			if len(list) != 1 || list[0].ID != finding.EtcdFull {
				t.Fatalf("got %+v", list)
			}
			if f := list[0]; f.Object != tt.object || !strings.HasPrefix(f.Next, tt.prefix) {
				t.Errorf("%s: %s", f.Object, f.Next)
			}
		})
	}
}

// TestBalancers: of a Service that waits, what was said last is quoted, and that nothing serves it.
func TestBalancers(t *testing.T) {
	const quota = "failed to ensure load balancer: Quota has been met for resources: Load Balancer"
	warned := warnedOf("SyncLoadBalancerFailed", "Error syncing load balancer: "+quota)
	log := logged("E1122 08:59:50.1 1 controller.go:302] error processing service shop/web (retrying with exponential backoff): "+quota,
		"E1122 08:59:51.1 1 controller.go:302] error processing service shop/web2 (retrying with exponential backoff): no subnet")
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"nothing is said", nil, "five minutes"},
		{"an Event", faults{warned}, "five minutes; its last warning is SyncLoadBalancerFailed: Error syncing load balancer: " + quota},
		{"a line of the log", faults{log}, "five minutes; the cloud-controller-manager logs: error processing service shop/web (retrying with exponential backoff): " + quota},
		{"its controller is off", faults{args("--controllers=*,-service")}, "five minutes, and no cloud-controller-manager here serves load balancers"},
		{"another program has said something", faults{args("--controllers=*,-service"), warnedOf("AllocationFailed", "no available IPs")}, "five minutes; its last warning is AllocationFailed: no available IPs"},
		{"in a condition", faults{args("--controllers=*,-service"), unsatisfied}, "five minutes; its condition cilium.io/IPAMRequestSatisfied is False: no_pool: there are no enabled pools"},
		{"of another class", faults{func(s *Snapshot) { s.Services[0].Spec.LoadBalancerClass = new("example.org/lb") }}, "five minutes, and waits for the program that serves loadBalancerClass example.org/lb"},
	} {
		list := balancers(newView(newSnapshot(templates.Deployment, 1, append(faults{service("web", time.Hour)}, tt.changes...)...)))
		if len(list) != 1 || !strings.HasSuffix(list[0].Message, tt.want) {
			t.Errorf("%s: got %+v, want %q", tt.name, list, tt.want)
		}
	}
	stuck := stuckServices(newView(newSnapshot(templates.Deployment, 1, service("web", time.Hour, deleted), warned)))
	if len(stuck) != 1 || !strings.HasSuffix(stuck[0].Message, quota) {
		t.Errorf("deleted: got %+v", stuck)
	}
}

func warnedOf(reason, message string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Events = append(s.Events, corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web"}, Type: corev1.EventTypeWarning,
			Reason: reason, Message: message, LastTimestamp: ago(time.Minute),
		})
	}
}

func unsatisfied(s *Snapshot) {
	s.Services[0].Status.Conditions = []metav1.Condition{{
		Type: "cilium.io/IPAMRequestSatisfied", Status: metav1.ConditionFalse, Reason: "no_pool", Message: "there are no enabled pools",
	}}
}

// TestBalancers_Excluded: that all Nodes are excluded is the cause where a cloud-controller-manager serves load balancers, or has found no Node, and
// hides nothing that was said.
func TestBalancers_Excluded(t *testing.T) {
	off := args("--controllers=*,-service")
	gone := func(s *Snapshot) { s.Pods, s.Deployments = nil, nil }
	for name, tt := range map[string]struct {
		changes faults
		id      finding.ID
		says    string
	}{
		"it serves them":                           {nil, finding.NoBackend, v1alpha1.ExcludeLabel},
		"it serves them, and says something":       {faults{warnedOf("SyncLoadBalancerFailed", "no hosts")}, finding.NoBackend, "SyncLoadBalancerFailed: no hosts"},
		"MetalLB serves them":                      {faults{off, warnedOf("AllocationFailed", "no available IPs")}, finding.BalancerPending, "AllocationFailed"},
		"nothing serves them":                      {faults{off}, finding.BalancerPending, "no cloud-controller-manager here serves"},
		"the cloud runs the manager":               {faults{gone, warnedOf("UnAvailableLoadBalancer", "There are no available nodes")}, finding.NoBackend, "no available nodes"},
		"the cloud runs it, and more is said":      {faults{gone, warnedOf("UnAvailableLoadBalancer", "x"), warnedOf("SyncLoadBalancerFailed", "no hosts")}, finding.NoBackend, ""},
		"MetalLB, and no cloud-controller-manager": {faults{gone, warnedOf("AllocationFailed", "no available IPs")}, finding.BalancerPending, "AllocationFailed"},
	} {
		list := balancers(newView(newSnapshot(templates.Deployment, 2, append(faults{service("web", time.Hour), excluded}, tt.changes...)...)))
		if len(list) != 1 || list[0].ID != tt.id || !strings.Contains(list[0].Message, tt.says) {
			t.Errorf("%s: got %+v", name, list)
		}
	}
}

// TestSymptoms_BeforeTheLast: that the Lease is lost is said with the error before it, and that etcd is full also where another component says it.
func TestSymptoms_BeforeTheLast(t *testing.T) {
	crashes := waiting("CrashLoopBackOff", "back-off")
	denied := `E1122 08:59:40.1 1 leaderelection.go:509] "Failed to update lease" err="admission webhook \"gate\" denied the request: no"`
	d := Diagnose(newSnapshot(templates.Deployment, 1, tainted, leaderless, crashes, logged(denied, "E1122 08:59:50.1 1 x.go:1] leaderelection lost")))
	if len(d.Causes) == 0 || d.Causes[0].ID != finding.LeaseLost || !strings.Contains(d.Causes[0].Message, "denied the request") {
		t.Errorf("got %+v", d.Causes)
	}
	full := func(s *Snapshot) {
		s.Components = &components.Seen{Logs: map[string][]string{"kube-scheduler-cp1": {
			`E1122 08:59:40.1 1 leaderelection.go:509] "Failed to update lease" err="etcdserver: mvcc: database space exceeded"`,
			"E1122 08:59:50.1 1 x.go:1] leaderelection lost",
		}}}
	}
	d = Diagnose(newSnapshot(templates.Deployment, 1, nobody, full))
	if !strings.HasPrefix(words(d), "Q6(1)") || d.Causes[0].Object != "Pod/kube-system/etcd-cp1" {
		t.Errorf("got %s: %+v", words(d), d.Causes)
	}
}

// TestEtcdFull_Whose: a pod with an etcd of its own, and a line of another day, are nothing of the cluster's etcd now.
func TestEtcdFull_Whose(t *testing.T) {
	const says = `%s.1 1 leaderelection.go:509] "Failed to update lease" err="etcdserver: mvcc: database space exceeded"`
	for name, tt := range map[string]struct {
		pod, at, external string
		want              string
	}{
		"the scheduler": {pod: "kube-scheduler-cp1", at: "E1122 08:55:00", want: "Pod/kube-system/etcd-cp1"},
		"the scheduler, etcd external": {
			pod: "kube-scheduler-cp1", at: "E1122 08:55:00", external: "etcd: {external: {}}", want: "Pod/kube-system/kube-scheduler-cp1",
		},
		"last week":    {pod: "kube-scheduler-cp1", at: "E1115 08:55:00"},
		"no time":      {pod: "kube-scheduler-cp1"},
		"a CNI plugin": {pod: "calico-node-x7k2p", at: "E1122 08:55:00"},
	} {
		s := newSnapshot(templates.Deployment, 1, nobody, func(s *Snapshot) {
			s.Kubeadm = tt.external
			s.Components = &components.Seen{Logs: map[string][]string{tt.pod: {fmt.Sprintf(says, tt.at)}}}
		})
		list, object := s.etcdFull("cp1"), ""
		if len(list) == 1 {
			object = list[0].Object
		}
		if object != tt.want {
			t.Errorf("%s: got %+v", name, list)
		}
	}
}
