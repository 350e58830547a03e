package diagnosis

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
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
