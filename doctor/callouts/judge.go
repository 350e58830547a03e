package callouts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Judge finds callouts that refuse or delay requests. Elsewhere says of a webhook that it is a finding already.
func Judge(all []Callout, elsewhere func(object, name string) bool) []finding.Finding {
	var list []finding.Finding
	for i := range all {
		c := &all[i]
		if elsewhere(c.Object, c.Name) {
			continue
		}
		switch {
		case c.Fails != "":
			list = Merge(list, c.fails(c.Fails))
		case c.Closed && c.leadsNowhere() && c.Name == "":
			list = Merge(list, c.fails(c.nowhere()))
		case c.Closed && c.leadsNowhere() && (c.Namespaces == nil || len(c.Namespaces) > 0):
			list = Merge(list, c.unserved())
		}
	}
	return list
}

// Merge adds a finding: one for each configuration, whose webhooks mostly fail together, with the remedies of all.
func Merge(list []finding.Finding, f finding.Finding) []finding.Finding {
	i := slices.IndexFunc(list, func(known finding.Finding) bool { return known.ID == f.ID && known.Object == f.Object })
	if i < 0 {
		return append(list, f)
	}
	known := &list[i]
	known.Message += "; " + f.Message
	if f.Severity.Compare(known.Severity) < 0 {
		known.Severity = f.Severity
	}
	if _, command, is := strings.Cut(f.Next, ": "); is && !strings.Contains(known.Next, command) {
		known.Next += ", then: " + command
	}
	return list
}

func (c *Callout) leadsNowhere() bool { return c.Service != "" && (c.Ready == 0 || c.Lacks != "") }

func (c *Callout) nowhere() string {
	if c.Lacks != "" {
		return "its Service " + c.Namespace + "/" + c.Service + " " + c.Lacks
	}
	return "its Service " + c.Namespace + "/" + c.Service + " has no ready endpoint"
}

// guards says what and where.
func (c *Callout) guards() string {
	text := "guards " + nodes.Some(c.Guards, 3)
	if c.Namespaces != nil {
		text += " in namespaces " + nodes.Some(c.Namespaces, 3)
	}
	if c.Narrow {
		text += ", some of them"
	}
	return text
}

// unserved is a webhook that fails closed and cannot be reached.
func (c *Callout) unserved() finding.Finding {
	f := finding.WebhookBlocks.New(c.Object, "webhook "+c.Name+" fails closed, "+c.guards()+", and "+c.nowhere())
	if c.Narrow || !slices.ContainsFunc(c.Guards, builtIn) {
		f.Severity = finding.SeverityWarning
	}
	f.Next = "start its pods; or, until they run: " + c.Ignored()
	return f
}

// builtIn says that Kubernetes itself has the resource: without it, workloads do not start or change. Groups of its projects end alike, as
// gateway.networking.k8s.io.
func builtIn(resource string) bool {
	_, group, named := strings.Cut(resource, ".")
	if !named || group == "*" || !strings.Contains(group, ".") {
		return true
	}
	name, of := strings.CutSuffix(group, ".k8s.io")
	return of && slices.Contains([]string{
		"admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization", "certificates", "coordination",
		"discovery", "events", "flowcontrol.apiserver", "networking", "node", "rbac.authorization", "resource", "scheduling", "storage",
	}, name)
}

// fails is one that was asked, or could be of no answer.
func (c *Callout) fails(why string) finding.Finding {
	what := "conversion of its objects by a webhook"
	does := ": objects of versions that are not stored cannot be read or written"
	if c.Name != "" {
		what = "webhook " + c.Name + ", which " + c.guards()
		does = fmt.Sprintf(": such a request waits up to %d s, and is then refused", c.Timeout)
		if !c.Closed {
			does = fmt.Sprintf(": each such request waits up to %d s", c.Timeout)
		}
	}
	f := finding.CalloutFails.New(c.Object, what+": "+why+does)
	switch {
	case c.Unsure: // a remedy for the wrong one would disarm it for nothing
		f.Next = "see which of them answers: " + lookAtAll
	case c.Name != "":
		f.Next = "correct its Service, its pods or its certificate; or, until they answer: " + c.Ignored()
	case name.MatchString(c.Namespace) && name.MatchString(c.Service):
		f.Next = "kubectl -n " + c.Namespace + " get endpointslices -l kubernetes.io/service-name=" + c.Service
	}
	return f
}

// name is one that may become a part of a command: a snapshot may have been written by anyone.
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// lookAtAll shows all webhooks.
const lookAtAll = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"

// Ignored is the command that has one webhook refuse nothing, and hold up nothing for long, while it does not answer; the others of its
// configuration stay as they are. It is refused where the webhook is not at its index any more.
func (c *Callout) Ignored() string {
	kind, object, _ := strings.Cut(c.Object, "/")
	if !name.MatchString(object) || !name.MatchString(c.Name) {
		return lookAtAll
	}
	at := fmt.Sprintf("/webhooks/%d/", c.Index)
	return fmt.Sprintf(`kubectl patch %s/%s --type=json -p '[{"op":"test","path":"%sname","value":"%s"},`+
		`{"op":"replace","path":"%[3]sfailurePolicy","value":"Ignore"},{"op":"replace","path":"%[3]stimeoutSeconds","value":1}]'`,
		strings.ToLower(kind), object, at, c.Name)
}
