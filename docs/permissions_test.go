package docs

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// permission is one verb on one resource, in a role. Names of role and Lease have placeholders for those of the provider.
type permission struct{ role, group, resource, verb string }

// switches are what a permission may depend on, and how to render without it.
func switches() map[string]func(*templates.Values) {
	return map[string]func(*templates.Values){
		"lifecycle":            func(v *templates.Values) { v.NodeLifecycle = false },
		"routes":               func(v *templates.Values) { v.Routes = false },
		"serving certificates": func(v *templates.Values) { v.ServingCertificates = false },
		"configuration file":   func(v *templates.Values) { v.Files = nil },
		"node agent":           func(v *templates.Values) { v.NodeAgent = false },
	}
}

// TestReference_PermissionsByProvider: reference/permissions-by-provider.md has what the rendered Roles and ClusterRoles of each
// provider grant. With -update it is rewritten.
func TestReference_PermissionsByProvider(t *testing.T) {
	const path = "reference/permissions-by-provider.md"
	want := permissionsPage(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != want {
		t.Errorf("%s is out of date: make generate", path)
	}
}

// TestPermissions_Least: whatever is granted anywhere, none of it is a wildcard, and Secrets are read by their names only.
func TestPermissions_Least(t *testing.T) {
	seen := 0
	for _, name := range templates.Names() {
		for p := range granted(t, name) {
			seen++
			if slices.Contains([]string{p.group, p.resource, p.verb}, "*") {
				t.Errorf("%s: %v is a wildcard", name, p)
			}
			// A vendor's provider may have to list them: then its profile says why, and the page shows it.
			if p.resource == "secrets" && name == "onprem" {
				t.Errorf("%s: %v: all Secrets of a namespace", name, p)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("%d permissions were seen, want those of all providers", seen)
	}
}

func permissionsPage(t *testing.T) string {
	t.Helper()
	of := map[string]map[permission]string{}
	var serving []string
	for _, name := range templates.Names() {
		of[name] = granted(t, name)
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Has(templates.Services) {
			serving = append(serving, name)
		}
	}
	b := &strings.Builder{}
	b.WriteString(`# Permissions by provider

What the Roles and ClusterRoles grant that ccmadm renders for each provider. The page is generated from the rendered objects:
` + "`make generate`" + `. [Permissions](permissions.md) has the reasons, the subjects and the admission policies.
` + "`ccmadm render --provider NAME --cluster-name NAME`" + ` prints the objects themselves.

PROVIDER is the provider's name, LEASE that of its Lease. "With" names the setting without which ccmadm does not grant the permission:
` + "`lifecycle`, `routes`, `--serving-certificates`, `--node-agent`" + `, or a configuration file. An empty cell is granted always.

`)
	common := shared(of, templates.Names())
	section(b, "## Every provider", "", common)
	balanced := without(shared(of, serving), common)
	section(b, "## Providers with load balancers", "All but "+listed(templates.Names(), serving)+".", balanced)
	section(b, "## Approver of serving certificates", "Beside the manager of every provider but onprem, whose own manager approves.",
		only(of["aws"], func(p permission) bool { return isApprover(p.role) }))
	section(b, "## Machines that join", "Granted to bootstrap tokens; those in kube-system to nodes as well.", record(t))
	b.WriteString("## Pods of steps and of a rehearsal\n\nPods of `--via pods` have no token, and no permission. A rehearsal has those of the\n" +
		"manager that read (get, list, watch), for as long as it runs.\n\n")
	b.WriteString("## By name\n\nPermissions beyond those above.\n\n")
	for _, name := range templates.Names() {
		own := without(without(of[name], common), balanced)
		own = only(own, func(p permission) bool { return !isApprover(p.role) })
		section(b, "### "+name, "", own)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func isApprover(role string) bool {
	return strings.HasSuffix(role, v1alpha1.Prefix+"serving-certificates")
}

// granted renders a provider with all that it can have, and without each switch. It returns each permission with the switches
// that it depends on.
func granted(t *testing.T, name string) map[permission]string {
	t.Helper()
	p, err := templates.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	v := manifeststest.Values(p, templates.DaemonSet, minors.Newest(), true)
	v.ServingCertificates, v.NodeAgent = true, p.NodeAgent != nil
	list := map[permission]string{}
	for one := range rendered(t, p, v) {
		list[one] = ""
	}
	all := switches()
	for _, option := range slices.Sorted(maps.Keys(all)) {
		less := v
		all[option](&less)
		left := rendered(t, p, less)
		for one, with := range list {
			if !left[one] {
				list[one] = strings.TrimPrefix(with+", "+option, ", ")
			}
		}
		for one := range left {
			if _, known := list[one]; !known {
				t.Errorf("%s: %v is granted only without %s", name, one, option)
			}
		}
	}
	return list
}

func rendered(t *testing.T, p *templates.Profile, v templates.Values) map[permission]bool {
	t.Helper()
	objects, err := manifests.RBAC(p, v)
	if err != nil {
		t.Fatal(err)
	}
	if v.NodeAgent {
		agent, err := manifests.NodeAgent(p, v)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, agent...)
	}
	return permissionsOf(t, objects, strings.NewReplacer(v1alpha1.Prefix+p.Name, v1alpha1.Prefix+"PROVIDER"), p.LeaseName())
}

// permissionsOf takes the rules of Roles and ClusterRoles apart.
func permissionsOf(t *testing.T, objects []*manifests.Object, names *strings.Replacer, lease string) map[permission]bool {
	t.Helper()
	found := map[permission]bool{}
	for _, o := range objects {
		if kind := o.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		var role rbacv1.Role // a ClusterRole without aggregation has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		where := names.Replace(role.Name)
		if role.Namespace != "" {
			where = role.Namespace + "/" + where
		}
		for _, r := range role.Rules {
			if len(r.NonResourceURLs) > 0 {
				t.Errorf("%s has URLs, which the page does not show", where)
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						found[permission{where, cmp.Or(group, "core"), named(resource, r.ResourceNames, lease), verb}] = true
					}
				}
			}
		}
	}
	return found
}

func named(resource string, names []string, lease string) string {
	for _, name := range names {
		if name == lease {
			name = "LEASE"
		}
		resource += " `" + name + "`"
	}
	return resource
}

func record(t *testing.T) map[permission]string {
	t.Helper()
	objects, err := manifests.Record(nil, "LEASE")
	if err != nil {
		t.Fatal(err)
	}
	list := map[permission]string{}
	for one := range permissionsOf(t, objects, strings.NewReplacer(), "LEASE") {
		list[one] = ""
	}
	return list
}

// shared are the permissions that all of these providers have, under the same conditions.
func shared(of map[string]map[permission]string, names []string) map[permission]string {
	list := maps.Clone(of[names[0]])
	for _, name := range names {
		maps.DeleteFunc(list, func(p permission, with string) bool {
			other, has := of[name][p]
			return !has || other != with
		})
	}
	return list
}

func without(list, less map[permission]string) map[permission]string {
	return only(list, func(p permission) bool { _, has := less[p]; return !has })
}

func only(list map[permission]string, keep func(permission) bool) map[permission]string {
	list = maps.Clone(list)
	maps.DeleteFunc(list, func(p permission, _ string) bool { return !keep(p) })
	return list
}

// listed are the names that are not among the others.
func listed(names, others []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(others, n) }), ", ")
}

// section writes a table with the verbs of each resource in one row.
func section(b *strings.Builder, title, text string, list map[permission]string) {
	b.WriteString(title + "\n\n")
	if text != "" {
		b.WriteString(text + "\n\n")
	}
	if len(list) == 0 {
		b.WriteString("None.\n\n")
		return
	}
	verbs := map[[4]string][]string{}
	for p, with := range list {
		row := [4]string{p.role, p.group, p.resource, with}
		verbs[row] = append(verbs[row], p.verb)
	}
	b.WriteString("| role | API group | resource | verbs | with |\n|---|---|---|---|---|\n")
	for _, row := range slices.SortedFunc(maps.Keys(verbs), func(a, b [4]string) int { return slices.Compare(a[:], b[:]) }) {
		slices.Sort(verbs[row])
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", row[0], row[1], row[2], strings.Join(verbs[row], ", "), row[3])
	}
	b.WriteString("\n")
}
