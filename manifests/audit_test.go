package manifests_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// audit has requests that a program makes, as the audit log of an API server has them: method and URI. Those of every
// program are in testdata/audit/core.yaml, those of one provider's in the file of its name.
type audit struct {
	// Allowed are requests that the program makes, and needs.
	Allowed []string `json:"allowed"`
	// Lifecycle and Services are such requests where the provider has the feature.
	Lifecycle []string `json:"lifecycle"`
	Services  []string `json:"services"`
	// Forbidden are requests that must be refused.
	Forbidden []string `json:"forbidden"`
	// Agents are the requests of the provider's agents, by their names.
	Agents map[string]audit `json:"agents"`
}

// auditOf joins what all programs ask for with what the provider's does.
func auditOf(t *testing.T, p *templates.Profile) audit {
	t.Helper()
	core, own := readAudit(t, "core"), readAudit(t, p.Name)
	a := audit{
		Allowed:   slices.Concat(core.Allowed, own.Allowed),
		Forbidden: slices.Concat(core.Forbidden, own.Forbidden),
		Agents:    own.Agents,
	}
	if p.Has(templates.Lifecycle) {
		a.Allowed = append(a.Allowed, core.Lifecycle...)
	}
	if p.Has(templates.Services) {
		a.Allowed = append(a.Allowed, core.Services...)
	}
	for _, list := range [][]string{a.Allowed, a.Forbidden} {
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], "${lease}", p.LeaseName())
		}
	}
	return a
}

// readAudit returns nothing for a provider that has no file: its program asks for nothing of its own.
func readAudit(t *testing.T, name string) audit {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "audit", name+".yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var a audit
	if err := yaml.UnmarshalStrict(data, &a); err != nil {
		t.Fatalf("read %s.yaml: %v", name, err)
	}
	return a
}

// Every permission has a caller: a request in the files of testdata/audit that needs it.
func TestAudit_EveryPermissionHasACaller(t *testing.T) {
	for _, name := range templates.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := templates.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			a := auditOf(t, p)
			objects, err := manifests.RBAC(p, manifeststest.Values(p, p.Modes[0], "v1.36.0", true))
			if err != nil {
				t.Fatal(err)
			}
			if p.NodeAgent != nil {
				v := manifeststest.Values(p, p.Modes[0], "v1.36.0", true)
				v.NodeAgent = true
				agent, err := manifests.NodeAgent(p, v)
				if err != nil {
					t.Fatal(err)
				}
				objects = append(objects, agent...)
			}
			looked := 0
			for _, o := range objects {
				calls := a.Allowed
				if agent, ok := strings.CutPrefix(o.GetName(), "ccmadm:"+p.Name+":"); ok {
					calls = a.Agents[agent].Allowed
				}
				for _, permission := range permissions(t, o) {
					looked++
					if !slices.ContainsFunc(calls, permission.neededFor) {
						t.Errorf("%s %s/%s grants %s, and no request needs it",
							o.GetKind(), o.GetNamespace(), o.GetName(), permission)
					}
				}
			}
			if looked < 10 {
				t.Errorf("%d permissions were looked at", looked)
			}
		})
	}
}

// With lifecycle Off nobody may delete a Node.
func TestRBAC_LifecycleOff(t *testing.T) {
	for _, name := range templates.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := templates.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			v := manifeststest.Values(p, p.Modes[0], "v1.36.0", true)
			v.NodeLifecycle = false
			objects, err := manifests.RBAC(p, v)
			if err != nil {
				t.Fatal(err)
			}
			onNodes := 0
			for _, o := range objects {
				for _, granted := range permissions(t, o) {
					if granted.resource == "nodes" {
						onNodes++
					}
					if granted.resource == "nodes" && strings.HasPrefix(granted.verb, "delete") {
						t.Errorf("%s %s grants %s", o.GetKind(), o.GetName(), granted)
					}
				}
			}
			if onNodes == 0 {
				t.Error("no permission on Nodes was looked at")
			}
		})
	}
}

// permission is one verb on one resource, in a namespace or in all.
type permission struct {
	verb, group, resource, namespace string
	names                            []string
}

func (p permission) String() string {
	return p.verb + " " + p.resource + " of group \"" + p.group + "\""
}

// permissions are those of a Role or ClusterRole; other objects have none.
func permissions(t *testing.T, o *manifests.Object) []permission {
	t.Helper()
	if !strings.HasSuffix(o.GetKind(), "Role") {
		return nil
	}
	role := rbacv1.ClusterRole{} // a Role has the same rules
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
		t.Fatal(err)
	}
	var list []permission
	for _, r := range role.Rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					list = append(list, permission{verb, group, resource, o.GetNamespace(), r.ResourceNames})
				}
			}
		}
	}
	return list
}

func (p permission) neededFor(call string) bool {
	info, err := requestInfo(call)
	if err != nil {
		return false
	}
	resource := strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	return info.Verb == p.verb && info.APIGroup == p.group && resource == p.resource &&
		(p.namespace == "" || p.namespace == info.Namespace) &&
		(len(p.names) == 0 || slices.Contains(p.names, info.Name))
}

// requestInfo is what the API server makes of a request.
func requestInfo(call string) (*request.RequestInfo, error) {
	method, uri, _ := strings.Cut(call, " ")
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	factory := request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	return factory.NewRequestInfo(&http.Request{Method: method, URL: u})
}
