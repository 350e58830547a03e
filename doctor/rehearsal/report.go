package rehearsal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Report is what a rehearsal has found.
type Report struct {
	// Nodes are in the order of their names.
	Nodes []Verdict
	// Refused are the requests that the program made and that are none of a Node, with how often.
	Refused map[string]int
}

// Outcome is what would become of a Node.
type Outcome string

// The outcomes.
const (
	// Recognized: it would be initialized, and its machine is there.
	Recognized Outcome = "Recognized"
	// SwitchedOff: the same, and the cloud reports that its machine is off. The Node stays.
	SwitchedOff Outcome = "SwitchedOff"
	// WouldBeDeleted: the cloud has no such machine, so that the Node would go as soon as its kubelet posts no status.
	WouldBeDeleted Outcome = "WouldBeDeleted"
	// NotRecognized: it would not be initialized. The Node stays.
	NotRecognized Outcome = "NotRecognized"
	// Unclear: it would be initialized, but the cloud could not be asked whether its machine is there. The Node stays.
	Unclear Outcome = "Unclear"
	// NoAnswer: the program did nothing with it in the time it had. That is no evidence of anything.
	NoAnswer Outcome = "NoAnswer"
)

// Verdict is about one Node.
type Verdict struct {
	// Node is its name.
	Node string `json:"node"`
	// Outcome is what would become of it.
	Outcome Outcome `json:"outcome"`
	// Message is what the program says of it, where it says anything.
	Message string `json:"message,omitempty"`
	// Before is what the cluster has, After what would be written. Without After nothing would be.
	Before Facts  `json:"before"`
	After  *Facts `json:"after,omitempty"`
	// Labels are those that would be added or changed, and RemovedLabels those that would go.
	Labels        map[string]string `json:"labels,omitempty"`
	RemovedLabels []string          `json:"removedLabels,omitempty"`
	// Finding is what is wrong, nil where nothing is.
	Finding *finding.Finding `json:"finding,omitempty"`
}

// Facts are what a provider says of a machine.
type Facts struct {
	ProviderID string `json:"providerID,omitempty"`
	// Addresses are like InternalIP:192.0.2.1.
	Addresses    []string `json:"addresses,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	Region       string   `json:"region,omitempty"`
	InstanceType string   `json:"instanceType,omitempty"`
}

func factsOf(n *corev1.Node) Facts {
	f := Facts{
		ProviderID:   n.Spec.ProviderID,
		Zone:         n.Labels[corev1.LabelTopologyZone],
		Region:       n.Labels[corev1.LabelTopologyRegion],
		InstanceType: n.Labels[corev1.LabelInstanceTypeStable],
	}
	for _, a := range n.Status.Addresses {
		f.Addresses = append(f.Addresses, string(a.Type)+":"+a.Address)
	}
	return f
}

// report puts the passes together. A Node that has left the cluster meanwhile is not in it.
func (r *rehearsal) report(one, two *result) *Report {
	report := &Report{Refused: maps.Clone(one.refused)}
	if two != nil {
		for what, times := range two.refused {
			report.Refused[what] += times
		}
	}
	for i := range r.nodes {
		if n := &r.nodes[i]; one.get(n.Name) != nil && (two == nil || two.get(n.Name) != nil) {
			report.Nodes = append(report.Nodes, judge(n, one, two))
		}
	}
	slices.SortStableFunc(report.Nodes, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	return report
}

// confirm takes what was found when the cloud was asked once more about Nodes that it gave errors for: one error alone
// is no answer.
func (r *result) confirm(again *result) {
	maps.Copy(r.deleted, again.deleted)
	maps.Copy(r.off, again.off)
	for what, times := range again.refused {
		r.refused[what] += times
	}
	still := again.failedNodes()
	for name := range r.failedNodes() {
		if again.complete && !still[name] {
			delete(r.failures, name)
		}
	}
}

// judge says what would become of a Node. A deletion counts more than anything that was said of it before.
func judge(n *corev1.Node, one, two *result) Verdict {
	v := Verdict{Node: n.Name, Before: factsOf(n)}
	first, _ := one.errorOf(n.Name)
	second, times := "", 0
	if two != nil {
		second, times = two.errorOf(n.Name)
	}
	if after := one.left(n.Name); after != nil && one.untainted[n.Name] {
		facts := factsOf(after)
		v.After = &facts
		v.compareLabels(n.Labels, after.Labels)
	}
	switch {
	case one.deleted[n.Name] || two != nil && two.deleted[n.Name]:
		v.Outcome, v.Message = WouldBeDeleted, cmp.Or(first, "the cloud has no such machine")
	case v.After == nil && first != "":
		v.Outcome, v.Message = NotRecognized, first
	case v.After == nil:
		v.Outcome, v.Message = NoAnswer, "the node controller did nothing with it"
	case two == nil:
		v.Outcome = Recognized
	case two.off[n.Name]:
		v.Outcome = SwitchedOff
	case times > 0:
		v.Outcome, v.Message = Unclear, second
	case !two.complete:
		v.Outcome, v.Message = NoAnswer, "the lifecycle controller did not process it in time"
	default:
		v.Outcome = Recognized
	}
	v.Finding = v.find()
	return v
}

func (v *Verdict) compareLabels(before, after map[string]string) {
	for key, value := range after {
		if old, there := before[key]; !there || old != value {
			if v.Labels == nil {
				v.Labels = map[string]string{}
			}
			v.Labels[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[key]; !there {
			v.RemovedLabels = append(v.RemovedLabels, key)
		}
	}
}

func (v *Verdict) find() *finding.Finding {
	id := map[Outcome]finding.ID{
		WouldBeDeleted: finding.WouldBeDeleted, NotRecognized: finding.NotRecognized, SwitchedOff: finding.SwitchedOff,
		Unclear: finding.CloudUnclear, NoAnswer: finding.NoRehearsal,
	}[v.Outcome]
	if id == "" {
		return nil
	}
	found := id.New("Node/"+v.Node, cmp.Or(v.Message, "the cloud reports that its machine is off"))
	return &found
}

// Failing are the Nodes that would be lost, or of which it is not known that they would not be.
func (r *Report) Failing() []Verdict {
	return slices.DeleteFunc(slices.Clone(r.Nodes), func(v Verdict) bool {
		return v.Outcome == Recognized || v.Outcome == SwitchedOff
	})
}

// Summary is a line like "18 Recognized, 1 SwitchedOff, 1 WouldBeDeleted".
func (r *Report) Summary() string {
	var parts []string
	for _, o := range []Outcome{Recognized, SwitchedOff, WouldBeDeleted, NotRecognized, Unclear, NoAnswer} {
		n := 0
		for _, v := range r.Nodes {
			if v.Outcome == o {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}
