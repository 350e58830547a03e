package lint

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/templates"
)

// eachGranted calls check for the workloads whose permissions are all in the files.
func (s *Set) eachGranted(check func(*workload, grants) []problem) []problem {
	var problems []problem
	for _, w := range s.workloads {
		if g := w.granted; w.scheduled() && len(g.roles) > 0 && g.complete {
			problems = append(problems, check(w, g)...)
		}
	}
	return problems
}

// permissions compares what the files grant with what every cloud-controller-manager of ccmadm's is granted.
func permissions(id finding.ID) func(*Set) []problem {
	return func(s *Set) []problem {
		core, err := manifests.CoreRules()
		if err != nil {
			return nil // the rules are embedded: a test reads them
		}
		return s.eachGranted(func(w *workload, g grants) []problem {
			var problems []problem
			for i, r := range core {
				for _, resource := range r.Resources {
					if ruleOf(w, resource, r) != id || slices.ContainsFunc(core[:i], func(r templates.Rule) bool {
						return slices.Contains(r.Resources, resource) && ruleOf(w, resource, r) == id
					}) {
						continue
					}
					problems = append(problems, g.missing(w, w.accessTo(r.APIGroups[0], resource, verbsOf(w, core, id, resource)...))...)
				}
			}
			return problems
		})
	}
}

// ruleOf tells which rule is about the permission; none where the workload can do without.
func ruleOf(w *workload, resource string, r templates.Rule) finding.ID {
	ownAccounts := w.is("use-service-account-credentials", "true")
	switch {
	case resource == "leases" && !w.is("leader-elect", "false"):
		return "D6"
	case resource == "nodes" && slices.Contains(r.Verbs, "list"):
		return "D13"
	case ownAccounts: // the rest is done under the names of the controllers
		return ""
	case strings.HasPrefix(resource, "nodes") && w.may(templates.Nodes):
		return "D8"
	case strings.HasPrefix(resource, "services") && w.may(templates.Services):
		return "D9"
	case resource == "events":
		return "D10"
	}
	return ""
}

// verbsOf lists all that the rules say of the resource.
func verbsOf(w *workload, rules []templates.Rule, id finding.ID, resource string) []string {
	var verbs []string
	for _, r := range rules {
		if slices.Contains(r.Resources, resource) && ruleOf(w, resource, r) == id {
			verbs = append(verbs, needed(resource, r.Verbs)...)
		}
	}
	return verbs
}

// needed leaves out what ccmadm grants for older releases and single providers.
func needed(resource string, verbs []string) []string {
	switch resource {
	case "services":
		return []string{"list", "watch"}
	case "services/status":
		return []string{"patch"}
	}
	return verbs
}

// missing is a finding about the first role with which a rule has effect, and which the fix adds one to: rather one of the namespace than
// one of all namespaces, and never one of a group, whose members it would grant the same. Where there is none, about the first.
func (g grants) missing(w *workload, a access) []problem {
	a.verbs = g.lacks(a)
	if len(a.verbs) == 0 {
		return nil
	}
	message := fmt.Sprintf("ServiceAccount/%s of %s may not %s %s", w.account(), w, strings.Join(a.verbs, ", "), a.resource)
	if g.isLimited(a) {
		message += ": the rule for that is limited to a namespace or to resourceNames"
	}
	in := func(namespace string) int {
		return slices.IndexFunc(g.roles, func(r grant) bool { return r.namespace == namespace && !r.shared })
	}
	i := in(a.namespace)
	if i < 0 {
		i = in("")
	}
	if i < 0 {
		return []problem{{object: g.roles[0].object, at: g.roles[0].at("rules"), message: message}}
	}
	r := g.roles[i]
	return []problem{{object: r.object, at: r.at("rules"), message: message, fix: func() error {
		rule := edit.MappingNode("apiGroups", list(a.group))
		rule.Content = append(
			rule.Content,
			edit.ScalarNode("resources"),
			list(a.resource),
			edit.ScalarNode("verbs"),
			list(a.verbs...),
		)
		return r.doc.Insert(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{rule}}, r.full("rules")...)
	}}}
}

func list(items ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, item := range items {
		n.Content = append(n.Content, edit.ScalarNode(item))
	}
	return n
}

func accountRights(s *Set) []problem {
	return s.eachGranted(func(w *workload, g grants) []problem {
		if !w.is("use-service-account-credentials", "true") {
			return nil
		}
		return slices.Concat(
			g.missing(w, w.accessTo("", "serviceaccounts", "get", "create")),
			g.missing(w, w.accessTo("", "serviceaccounts/token", "create")),
		)
	})
}
