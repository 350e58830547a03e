package diagnosis

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// Fix is a remedy that `doctor --fix` may apply: it is marked safe in the catalogue, and all that it needs is known.
type Fix struct {
	// ID and Object are the finding's.
	ID     finding.ID
	Object string
	// What it does, in a few words.
	What string
	// Patch changes an object of the cluster; nil where Run does it.
	Patch *Patch
	// Run are commands for this machine, each a program with its arguments. Nothing in them comes from the cluster.
	Run [][]string
}

// Patch changes one object.
type Patch struct {
	// Kind is deployment, daemonset or node.
	Kind, Namespace, Name string
	Type                  types.PatchType
	Data                  []byte
	Subresource           string
}

// Command is the line for a shell; text that comes from the cluster is quoted for a shell.
func (f *Fix) Command() string {
	if p := f.Patch; p != nil {
		words := []string{"kubectl"}
		if p.Namespace != "" {
			words = append(words, "-n", p.Namespace)
		}
		words = append(words, "patch", p.Kind+"/"+p.Name)
		if p.Subresource != "" {
			words = append(words, "--subresource="+p.Subresource)
		}
		kind := map[types.PatchType]string{types.JSONPatchType: "json", types.StrategicMergePatchType: "strategic"}[p.Type]
		return shellLine(append(words, "--type="+kind, "-p", string(p.Data)))
	}
	var lines []string
	for _, args := range f.Run {
		lines = append(lines, shellLine(args))
	}
	return strings.Join(lines, " && ")
}

// shellLine is a command line without what a terminal would act on.
func shellLine(args []string) string {
	var words []string
	for _, a := range args {
		words = append(words, finding.Clean(a))
	}
	return machine.ShellQuote(words...)
}

// Fixes are the safe remedies of what was found in a snapshot, in the order of the causes. Where Nodes are named, no
// other Node is changed.
func (d *Diagnosis) Fixes(s *Snapshot, names []string) []Fix {
	v := newView(s)
	var list []Fix
	for _, c := range d.Causes {
		if !c.Safe {
			continue
		}
		for _, object := range c.Objects {
			name, isNode := strings.CutPrefix(object, "Node/")
			if isNode && len(names) > 0 && !slices.Contains(names, name) {
				continue
			}
			fix := v.fix(d.Causes, &c, object)
			if fix == nil {
				continue
			}
			fix.ID, fix.Object = c.ID, object
			list = append(list, *fix)
		}
	}
	return list
}

// fix is nil where what was seen does not fit the remedy.
func (v *view) fix(causes []Cause, c *Cause, object string) *Fix {
	switch c.ID {
	case "B1", "B2", "B3":
		lacking := brokenRules(causes, object)
		if len(lacking) > 0 && lacking[0] == c.ID { // one patch has all of a workload: each would replace the former
			return v.tolerate(lacking, object)
		}
	case finding.ShutdownStays:
		return v.withoutShutdown(strings.TrimPrefix(object, "Node/"))
	case finding.RouteFailed:
		return v.routesOff(strings.TrimPrefix(object, "Node/"))
	case finding.KubeletNotRun:
		if v.Host != nil && object == v.Host.node() && v.Host.Unit.Active == "inactive" && v.Host.Unit.File != "masked" {
			return &Fix{What: "start the kubelet of this machine", Run: [][]string{{"systemctl", "start", "kubelet"}}}
		}
	case finding.KubeletNotEnabled:
		if v.Host != nil && object == v.Host.node() && v.Host.Unit.File == "disabled" {
			return &Fix{What: "start the kubelet at each boot", Run: [][]string{{"systemctl", "enable", "kubelet"}}}
		}
	case finding.KubeletStale:
		if v.Host != nil && object == v.Host.node() && v.Host.restartIsSafe() {
			return &Fix{What: "restart the kubelet of this machine; pods keep running", Run: [][]string{
				{"systemctl", "daemon-reload"}, {"systemctl", "restart", "kubelet"},
			}}
		}
	}
	return nil
}

// brokenRules are the rules about taints that an object breaks for certain: a rule's warning is no proof.
func brokenRules(causes []Cause, object string) []finding.ID {
	var list []finding.ID
	for _, c := range causes {
		rule := slices.Contains([]finding.ID{"B1", "B2", "B3"}, c.ID)
		if rule && c.Safe && c.Severity == finding.SeverityError && slices.Contains(c.Objects, object) {
			list = append(list, c.ID)
		}
	}
	return list
}

// tolerate adds tolerations to a workload.
func (v *view) tolerate(ids []finding.ID, object string) *Fix {
	var keys []string
	for _, taint := range slices.Sorted(maps.Keys(taintRules())) {
		if slices.Contains(ids, taintRules()[taint]) {
			keys = append(keys, taint)
		}
	}
	i := slices.IndexFunc(v.managers, func(m manager) bool { return finding.Clean(m.object) == object })
	if len(keys) == 0 || i < 0 {
		return nil
	}
	m := &v.managers[i]
	kind, _, _ := strings.Cut(m.object, "/")
	if kind != "Deployment" && kind != "DaemonSet" {
		return nil
	}
	what := "tolerate taint " + strings.Join(keys, ", ") + "; this recreates the workload's pods"
	return patch(what, strings.ToLower(kind), m.namespace, m.name, tolerating(m.pod.Tolerations, keys)...)
}

func (v *view) withoutShutdown(name string) *Fix {
	n := v.byName[name]
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.ShutdownTaint })
	if i < 0 {
		return nil
	}
	path := fmt.Sprintf("/spec/taints/%d", i)
	return patch("remove taint "+v1alpha1.ShutdownTaint+" from a Node that is Ready", "node", "", name,
		map[string]any{"op": "test", "path": path + "/key", "value": v1alpha1.ShutdownTaint},
		map[string]any{"op": "remove", "path": path})
}

// routesOff takes back a condition whose writer is switched off.
func (v *view) routesOff(name string) *Fix {
	if m := v.main(); m == nil || m.arg("configure-cloud-routes") != "false" || v.byName[name] == nil {
		return nil
	}
	return &Fix{What: "set condition NetworkUnavailable to False, which no controller does while routes are off", Patch: &Patch{
		Kind: "node", Name: name, Subresource: "status", Type: types.StrategicMergePatchType,
		Data: []byte(`{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False","reason":"RoutesOff"}]}}`),
	}}
}

func patch(what, kind, namespace, name string, ops ...map[string]any) *Fix {
	data, err := json.Marshal(ops)
	if err != nil {
		return nil // of maps of strings there is no error
	}
	return &Fix{
		What:  what,
		Patch: &Patch{Kind: kind, Namespace: namespace, Name: name, Type: types.JSONPatchType, Data: data},
	}
}
