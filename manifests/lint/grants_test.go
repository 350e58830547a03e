package lint_test

import (
	"strings"
	"testing"
)

// Of the mistakes that RBAC allows, each as replacements in good.
func TestCheck_Grants(t *testing.T) {
	const (
		binding     = "kind: ClusterRoleBinding\nmetadata:\n  name: acme\n"
		lone        = "kind: RoleBinding\nmetadata:\n  name: acme\n  namespace: kube-system\n"
		cluster     = "kind: ClusterRole\nmetadata:\n  name: acme\n"
		lease       = "- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}\n"
		subject     = "- {kind: ServiceAccount, name: acme, namespace: kube-system}\n"
		leaseInRole = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: lease, namespace: NAMESPACE}\nrules:\n" +
			lease +
			"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: lease, namespace: NAMESPACE}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lease}\nsubjects:\n" + subject
		named = "- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [ccm], verbs: [get, update]}\n"
	)
	tests := []struct {
		name    string
		replace []string
		add     string
		want    string
		left    string
	}{
		{
			name:    "a RoleBinding to a ClusterRole: leases of its namespace, but nothing of the cluster",
			replace: []string{binding, lone},
			want:    "D13:56 D8:56 D8:56 D10:56 D9:56 D9:56", left: "D13:56 D8:56 D8:56 D10:56 D9:56 D9:56",
		},
		{
			name:    "a RoleBinding to a ClusterRole elsewhere: no leases either",
			replace: []string{binding, strings.Replace(lone, "kube-system", "acme", 1)},
			want:    "D13:56 D6:56 D8:56 D8:56 D10:56 D9:56 D9:56", left: "D13:56 D6:56 D8:56 D8:56 D10:56 D9:56 D9:56",
		},
		{
			name:    "leases by a Role in kube-system",
			replace: []string{lease, ""}, add: strings.ReplaceAll(leaseInRole, "NAMESPACE", "kube-system"),
		},
		{
			name:    "leases by a Role in another namespace",
			replace: []string{lease, ""}, add: strings.ReplaceAll(leaseInRole, "NAMESPACE", "acme"), want: "D6:56 fix",
		},
		{
			name:    "leases in the namespace that the argument names",
			replace: []string{lease, "", "--leader-elect=true", "--leader-elect-resource-namespace=acme"},
			add:     strings.ReplaceAll(leaseInRole, "NAMESPACE", "acme"),
		},
		{
			name:    "some Nodes by their names",
			replace: []string{"resources: [nodes], verbs: [update, patch]", "resources: [nodes], resourceNames: [cp1], verbs: [update, patch]"},
			want:    "D8:56 fix",
		},
		{
			name:    "one Lease by its name, and create of any",
			replace: []string{lease, named + strings.Replace(lease, "get, create, update", "create", 1)},
		},
		{
			name:    "create of one Lease by its name, which no request has",
			replace: []string{lease, strings.Replace(named, "get, update", "get, create, update", 1)},
			want:    "D6:56 fix",
		},
		{
			name: "a role whose rules come from others",
			replace: []string{
				"rules:\n", "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}\nrules:\n",
				"resources: [nodes], verbs: [get, list, watch]", "resources: [nodes], verbs: [get]",
			},
		},
		{
			name:    "tokens of controllers by their names",
			replace: []string{"--leader-elect=true", "--use-service-account-credentials=true", lease, lease + serviceAccounts},
		},
		{
			name:    "bound to the user that the account is",
			replace: []string{subject, "- {kind: User, name: 'system:serviceaccount:kube-system:acme'}\n"},
		},
		{
			name:    "bound to the user of another account",
			replace: []string{subject, "- {kind: User, name: 'system:serviceaccount:acme:acme'}\n"}, want: "D15:17", left: "D15:17",
		},
		{name: "bound to all accounts", replace: []string{subject, "- {kind: Group, name: 'system:serviceaccounts'}\n"}},
		{
			name:    "bound to all accounts of the namespace",
			replace: []string{subject, "- {kind: Group, name: 'system:serviceaccounts:kube-system'}\n"},
		},
		{name: "bound to all users", replace: []string{subject, "- {kind: Group, name: 'system:authenticated'}\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i := 0; i < len(tt.replace); i += 2 {
				if !strings.Contains(good, tt.replace[i]) {
					t.Fatalf("%q is not in the manifest", tt.replace[i])
				}
			}
			set := parse(t, strings.NewReplacer(tt.replace...).Replace(good)+tt.add)
			findings, err := set.Check()
			if got := summary(findings); err != nil || got != tt.want {
				t.Errorf("found %q, error %v, want %q", got, err, tt.want)
			}
			for _, f := range findings {
				limited := strings.HasSuffix(f.Message, "is limited to a namespace or to resourceNames")
				if f.ID != "D15" && !limited {
					t.Errorf("%s does not say that a rule is limited: %s", f.ID, f.Message)
				}
			}
			if _, left := fixed(t, set.Check); summary(left) != tt.left {
				t.Errorf("left %q, want %q", summary(left), tt.left)
			}
		})
	}
}

// serviceAccounts are what the controllers of one program do under names of their own.
const serviceAccounts = `- {apiGroups: [""], resources: [serviceaccounts], verbs: [get, create]}
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [node-controller, service-controller], verbs: [create]}
`

// A rule for another ConfigMap does not let the program read how callers are authenticated.
func TestCheck_AuthenticationByName(t *testing.T) {
	for name, want := range map[string]string{"extension-apiserver-authentication": "", "other": "D5:2 fix"} {
		input := strings.NewReplacer("        - --authentication-skip-lookup=true\n", "", "rules:\n",
			"rules:\n- {apiGroups: [''], resources: [configmaps], resourceNames: ["+name+"], verbs: [get]}\n").Replace(good)
		findings, err := parse(t, input).Check()
		if got := summary(findings); err != nil || got != want {
			t.Errorf("%s: found %q, error %v, want %q", name, got, err, want)
		}
	}
}

// A Pod whose ServiceAccount the files make or bind is no static one.
func TestCheck_Pod(t *testing.T) {
	const rbac = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: acme}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: other}\nsubjects:\n"
	pod := func(account string) string {
		return `apiVersion: v1
kind: Pod
metadata: {name: acme-cloud-controller-manager, namespace: kube-system}
spec:
  serviceAccountName: ` + account + `
  hostNetwork: true
  tolerations: [{operator: Exists}]
  containers:
  - name: manager
    image: example.com/acme:v1
    args: [--cloud-provider=acme, --cluster-name=mine, --configure-cloud-routes=false, --leader-elect=false, --kubeconfig=/etc/acme.conf]
`
	}
	for _, tt := range []struct{ name, input, want string }{
		{"nothing tells of its account", strings.Replace(pod("acme"), "--leader-elect=false, ", "", 1), "A15:5"},
		{"its account is bound", pod("acme") + rbac + "- {kind: ServiceAccount, name: acme, namespace: kube-system}\n", ""},
		{"its account is there", pod("acme") + "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: acme, namespace: kube-system}\n", ""},
		{
			"all accounts are bound, which tells nothing",
			strings.Replace(pod("acme"), "--leader-elect=false, ", "", 1) + rbac + "- {kind: Group, name: 'system:serviceaccounts'}\n", "A15:5",
		},
		{
			"it is on the scheduler",
			strings.Replace(pod("acme"), "[{operator: Exists}]", "[]", 1) + rbac + "- {kind: ServiceAccount, name: acme, namespace: kube-system}\n",
			"B1:7 fix B2:7 fix B3:7 fix F2:7 fix",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			findings, err := parse(t, tt.input).Check()
			if got := summary(findings); err != nil || got != tt.want {
				t.Errorf("found %q, error %v, want %q", got, err, tt.want)
			}
		})
	}
}
