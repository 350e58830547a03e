package lint_test

import (
	"strings"
	"testing"
)

const (
	toAccount = "- {kind: ServiceAccount, name: acme, namespace: kube-system}\n"
	someLease = "- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}\n"
)

// A binding of a group does not tell what the account is granted where its role is one that each API server binds, and a fix does not
// grant the group anything.
func TestCheck_GrantsOfGroups(t *testing.T) {
	bound := func(role, group string) string {
		return "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: '" + role + "'}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: '" + role + "'}\n" +
			"subjects:\n- {kind: Group, name: '" + group + "'}\n"
	}
	role := func(name string) string {
		return "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: '" + name + "'}\nrules:\n" +
			"- {apiGroups: [''], resources: [pods], verbs: [get]}\n"
	}
	discovery := bound("system:discovery", "system:authenticated")
	for _, tt := range []struct{ name, from, to, add, want string }{
		{"a role of each API server", someLease, "", discovery, "D6:56 fix"},
		{"its account mistyped", toAccount, strings.Replace(toAccount, "acme", "acmee", 1), discovery, "D15:17"},
		{
			"roles of each API server", someLease, "",
			bound("system:public-info-viewer", "system:authenticated") + bound("system:service-account-issuer-discovery", "system:serviceaccounts"),
			"D6:56 fix",
		},
		{"a role that is not in the files", someLease, "", bound("vendor", "system:authenticated"), ""},
		{
			"its account mistyped, and a role that is not in the files",
			toAccount, strings.Replace(toAccount, "acme", "acmee", 1), bound("vendor", "system:authenticated"), "",
		},
		{"a role in the files", someLease, "", bound("pods", "system:serviceaccounts") + role("pods"), "D6:56 fix"},
	} {
		set := parse(t, strings.Replace(good, tt.from, tt.to, 1)+tt.add)
		findings, err := set.Check()
		if got := summary(findings); err != nil || got != tt.want {
			t.Errorf("%s: found %q, error %v, want %q", tt.name, got, err, tt.want)
		}
	}
	text := strings.Replace(good, toAccount, "- {kind: Group, name: 'system:serviceaccounts'}\n", 1)
	set := parse(t, strings.Replace(text, someLease, "", 1))
	if findings, err := set.Check(); err != nil || summary(findings) != "D6:56" {
		t.Errorf("all accounts are bound: found %q, error %v, want D6 without a fix", summary(findings), err)
	}
}

// What is used in one namespace is granted there, if there is a Role for it.
func TestCheck_GrantsInNamespace(t *testing.T) {
	const cut = "- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create]}\n"
	base := strings.Replace(good, someLease, "", 1)
	role := "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: lease, namespace: kube-system}\nrules:\n" + cut +
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: lease, namespace: kube-system}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lease}\nsubjects:\n" + toAccount
	set := parse(t, base+role)
	found, left := fixed(t, set.Check)
	text := string(set.Files[0].Bytes())
	if len(found) != 1 || len(left) != 0 || !strings.HasPrefix(text, base+"---\n") {
		t.Errorf("fixed %q, left %q, the text is\n%s", summary(found), summary(left), text)
	}
}
