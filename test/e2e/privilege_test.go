package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// unusedButGranted are permissions that a quiet run of a few minutes does not need. Each has its reason.
var unusedButGranted = map[string]string{
	"leases update kube-system":   "used from the first renewal on; a very short run may not reach it",
	"events patch":                "the event recorder patches when an event repeats, as it does for a node that fails twice",
	"nodes get":                   "the node controller reads a node again when its cached copy has gone",
	"nodes patch":                 "the lifecycle controller adds and removes the taint of machines that are shut down",
	"nodes list":                  "the informer lists where the API server does not stream lists (before 1.35, or with the feature off)",
	"nodes/status patch":          "addresses that the kubelet has not published by itself, as with a node-ip that changes later",
	"tokenreviews create":         "/metrics asks who is calling; nothing scrapes it in this run",
	"subjectaccessreviews create": "/metrics asks whether the caller may; nothing scrapes it in this run",
	"configmaps list kube-system": "informers list where the API server does not stream lists",
	"services list":               "informers list where the API server does not stream lists",
	"endpointslices list":         "informers list where the API server does not stream lists",
	"ipaddresses list":            "informers list where the API server does not stream lists",
	"namespaces list":             "informers list where the API server does not stream lists",
	"servicecidrs list":           "informers list where the API server does not stream lists",
	"addresspools list":           "informers list where the API server does not stream lists",
	"bgppeers list":               "informers list where the API server does not stream lists",
	"nodeagents list":             "informers list where the API server does not stream lists",
	"nodeagentleases list":        "informers list where the API server does not stream lists",
	"nodeannouncements list":      "informers list where the API server does not stream lists",
	"nodeagents patch":            "no agent is silent for five minutes in this run",
	"services get":                "no Service of type LoadBalancer in this run",
	"services patch":              "no Service of type LoadBalancer in this run",
	"services update":             "no Service of type LoadBalancer in this run",
	"services/status patch":       "no Service of type LoadBalancer in this run",
	"services/status update":      "no Service of type LoadBalancer in this run",
	"ipaddresses create":          "no Service of type LoadBalancer in this run",
	"ipaddresses update":          "no Service of type LoadBalancer in this run",
	"ipaddresses delete":          "no Service of type LoadBalancer in this run",
	"addresspools/status patch":   "no AddressPool in this run",
	"bgppeers/status patch":       "no BGPPeer in this run",
	"pods/status patch":           "no machine is gone in this run",
	"leases get kube-node-lease":  "the inventory lists no machine as gone",
	"leases list kube-node-lease": "no machine is silent in this run",
}

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// withAudit adds an audit log to the lab's kubeadm configuration.
const withAudit = `mkdir -p /etc/lab/audit /var/log/audit && cat > /etc/lab/audit/policy.yaml <<'END'
` + auditPolicy + `END
python3 --version >/dev/null 2>&1; awk '
/^kind: ClusterConfiguration/ {print; print "apiServer:\n  extraArgs:\n  - {name: audit-policy-file, value: /etc/lab/audit/policy.yaml}\n  - {name: audit-log-path, value: /var/log/audit/audit.log}\n  extraVolumes:\n  - {name: audit-policy, hostPath: /etc/lab/audit, mountPath: /etc/lab/audit, readOnly: true, pathType: Directory}\n  - {name: audit-log, hostPath: /var/log/audit, mountPath: /var/log/audit, pathType: DirectoryOrCreate}"; next}
{print}' /etc/lab/kubeadm.yaml > /etc/lab/audited.yaml`

// TestLeastPrivilege reads the API server's audit log of a whole bootstrap, in both modes.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mode, user string }{
		{"StaticPod", "system:cloud-controller-manager"},
		{"DaemonSet", "system:serviceaccount:kube-system:onprem-cloud-controller-manager"},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			l := up(t, "audit", 1, 1)
			l.must(t, "cp1", withAudit)
			l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/etc/lab/audited.yaml", 1)+" --mode "+tc.mode)
			l.must(t, "w1", l.joinCommand(t))
			l.kubectl(t, "-n kube-system delete lease cloud-controller-manager") // the leader makes it again
			eventually(t, 30*time.Second, "the lease is renewed", func() bool {
				return strings.Contains(l.sh(t, "cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get lease cloud-controller-manager -o name").out, "lease")
			})
			events := l.auditEvents(t)
			l.expectNothingForbidden(t, events, tc.user)
			l.reportUnused(t, events, tc.user)
		})
	}
}

func (l *lab) auditEvents(t *testing.T) []auditv1.Event {
	t.Helper()
	return l.auditEventsOf(t, "cp1")
}

// auditEventsOf are those of a machine's API server.
func (l *lab) auditEventsOf(t *testing.T, node string) []auditv1.Event {
	t.Helper()
	var events []auditv1.Event
	for line := range strings.SplitSeq(l.must(t, node, "cat /var/log/audit/audit.log"), "\n") {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err == nil {
			events = append(events, e)
		}
	}
	if len(events) < 100 {
		t.Fatalf("the audit log has %d events: too few to say anything", len(events))
	}
	return events
}

// expectNothingForbidden looks at our identities, once the last of our bindings was in.
func (l *lab) expectNothingForbidden(t *testing.T, events []auditv1.Event, user string) {
	t.Helper()
	var granted time.Time
	for _, e := range events {
		ours := e.ObjectRef != nil && strings.HasSuffix(e.ObjectRef.Resource, "rolebindings") && strings.HasPrefix(e.ObjectRef.Name, "ccmadm:")
		if ours && e.Verb == "patch" && e.ResponseStatus != nil && e.ResponseStatus.Code == 201 && e.StageTimestamp.After(granted) {
			granted = e.StageTimestamp.Time
		}
	}
	if granted.IsZero() {
		t.Fatal("the audit log shows no binding of ours")
	}
	// The authorizer learns of a binding through a watch, a moment after the write has returned.
	granted = granted.Add(500 * time.Millisecond)
	served := 0
	for _, e := range events {
		mine := e.User.Username == user || strings.HasPrefix(e.UserAgent, "ccmadm/")
		if !mine || e.RequestReceivedTimestamp.Time.Before(granted) {
			continue
		}
		served++
		if e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
			t.Errorf("forbidden: %s %s %s", e.User.Username, e.Verb, e.RequestURI)
		}
	}
	t.Logf("%d requests of our identities after RBAC went in", served)
	if served == 0 {
		t.Error("none of our identities has made a request")
	}
}

// reportUnused prints what was granted and never used, and fails for what has no reason.
func (l *lab) reportUnused(t *testing.T, events []auditv1.Event, user string) {
	t.Helper()
	used := map[string]bool{}
	for _, e := range events {
		if e.User.Username != user || e.ObjectRef == nil {
			continue
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		used[resource+" "+e.Verb] = true
		used[resource+" "+e.Verb+" "+e.ObjectRef.Namespace] = true
	}
	unused := map[string]bool{}
	for right := range l.grantedRights(t) {
		if !used[right] {
			unused[right] = true
		}
	}
	for _, right := range slices.Sorted(maps.Keys(unused)) {
		reason := unusedButGranted[right]
		t.Logf("granted, not used in this run: %-30s %s", right, reason)
		if reason == "" {
			t.Errorf("%q is granted, was never used, and nothing says why", right)
		}
	}
}

// grantedRights lists "resource verb" of our ClusterRole, and "resource verb kube-system" of our Role.
func (l *lab) grantedRights(t *testing.T) map[string]bool {
	t.Helper()
	var cluster rbacv1.ClusterRole
	var namespaced rbacv1.Role
	for target, get := range map[any]string{&cluster: "get clusterrole ccmadm:onprem -o json", &namespaced: "-n kube-system get role ccmadm:onprem -o json"} {
		if err := json.Unmarshal([]byte(l.kubectl(t, get)), target); err != nil {
			t.Fatal(err)
		}
	}
	permissions := map[string]bool{}
	add := func(rules []rbacv1.PolicyRule, suffix string) {
		for _, r := range rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					if resource == "*" || verb == "*" {
						t.Errorf("a wildcard is granted: %s %s", resource, verb)
					}
					permissions[fmt.Sprintf("%s %s%s", resource, verb, suffix)] = true
				}
			}
		}
	}
	add(cluster.Rules, "")
	add(namespaced.Rules, " kube-system")
	return permissions
}
