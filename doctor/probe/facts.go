// Package probe asks the network from Nodes: what a machine and a pod on it reach, and how that machine is set up for pods.
//
// Start at [Facts], which is what was asked and what came back, and at [Facts.Findings], which judges it: judge.go. ask.go is what a
// pod does, answer.go how it says that in the few bytes that a pod may leave behind. Package frompods makes the pods.
//
// Reads: what a [Task] names, /proc/sys/net/ipv4/ip_forward and the default route. Writes: nothing; a pod's answer goes to the file
// that it is given.
// Running it twice: asks again.
// It will not: send a credential, or read more of an answer than that there is one.
package probe

import (
	"fmt"
	"slices"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Subject is what is asked for.
type Subject string

// The subjects.
const (
	// Service is the API server at the address of its Service, Endpoint at the control plane's endpoint, and Server at its own address.
	Service  Subject = "Service"
	Endpoint Subject = "Endpoint"
	Server   Subject = "Server"
	// DNSUDP and DNSTCP are the cluster's DNS.
	DNSUDP Subject = "DNS by UDP"
	DNSTCP Subject = "DNS by TCP"
	// Kubelet is that of another Node.
	Kubelet Subject = "Kubelet"
	// Balancer is an address of a LoadBalancer Service.
	Balancer Subject = "LoadBalancer"
)

// Target is one thing to ask.
type Target struct {
	Subject Subject `json:"subject"`
	// Object has the address, such as Node/w2; empty for the control plane's endpoint.
	Object string `json:"object,omitempty"`
	// Address is HOST:PORT.
	Address string `json:"address"`
	// Name is the one that DNS is asked for.
	Name string `json:"name,omitempty"`
	// AnyAnswer says that DNS may answer that there is no such name: the cluster's domain is not known.
	AnyAnswer bool `json:"any,omitempty"`
}

// Place is where on a Node something was asked from.
type Place string

// The places.
const (
	Machine Place = "machine"
	Pod     Place = "pod"
)

// Facts is what was asked from Nodes.
type Facts struct {
	// Targets is all that was to be asked from any Node.
	Targets []Target `json:"targets"`
	Sources []Source `json:"sources"`
	// Only are the names of the Nodes that were to be asked from; empty: all.
	Only []string `json:"only,omitempty"`
	// NotLooked is what was not asked because there is no need or no such thing, and why, one line each. Unknown is what was to be
	// asked, and could not be.
	NotLooked []string `json:"notLooked,omitempty"`
	Unknown   []string `json:"unknown,omitempty"`
	// Took is for how long it was asked.
	Took time.Duration `json:"took"`
}

// Source is one place of a Node, with what came back there.
type Source struct {
	Node string `json:"node"`
	From Place  `json:"from"`
	// Unasked is why nothing could be asked from there. It is a fact about the probe, and says nothing about the network.
	Unasked string `json:"unasked,omitempty"`
	// Asked are indices of Facts.Targets.
	Asked []int `json:"asked,omitempty"`
	// Answer is what the pod said, with indices of Facts.Targets.
	Answer Answer `json:"answer"`
}

// Answer is what a pod leaves behind.
type Answer struct {
	// Version is that of this form.
	Version int `json:"v"`
	// Asked is how many targets were asked, and Failed which of them did not answer.
	Asked  int       `json:"n"`
	Failed []Failure `json:"f,omitempty"`
	// Cut is how many more did not answer than there was room for.
	Cut int `json:"cut,omitempty"`
	// Forwarding is net.ipv4.ip_forward as it stands there; empty: not read.
	Forwarding string `json:"fwd,omitempty"`
	// Link is the interface of the default route, and MTU its largest packet, in bytes; 0: not known.
	Link string `json:"link,omitempty"`
	MTU  int    `json:"mtu,omitempty"`
	// Largest is the largest MTU of the machine's own links: pods may have another one than that of the default route. 0: not known.
	Largest int `json:"max,omitempty"`
}

// Failure is a target that did not answer.
type Failure struct {
	// Target is its index in the task, and in Facts that of Facts.Targets.
	Target int         `json:"t"`
	Kind   Unreachable `json:"k"`
	Error  string      `json:"e,omitempty"`
	// Ping is whether its address answered ICMP instead: "yes" or "no"; empty where it was not asked.
	Ping string `json:"p,omitempty"`
}

// mostNames is how many names or targets a line lists.
const mostNames = 5

// Lines say how much was asked, and what was not.
func (f *Facts) Lines() []string {
	nodes, questions, failed := map[string]bool{}, 0, 0
	lines := f.unasked()
	for i := range f.Sources {
		s := &f.Sources[i]
		if s.Unasked != "" {
			continue
		}
		nodes[s.Node] = true
		questions += s.Answer.Asked
		failed += len(s.Answer.Failed) + s.Answer.Cut
		if s.Answer.Cut > 0 {
			lines = append(lines, fmt.Sprintf("not looked at: which %d more of %d did not answer %s of Node/%s", s.Answer.Cut,
				s.Answer.Asked, s.From.text(), finding.Clean(s.Node)))
		}
	}
	for _, text := range slices.Concat(f.Unknown, f.NotLooked) {
		lines = append(lines, "not looked at: "+finding.Clean(text))
	}
	sum := fmt.Sprintf("probe: asked from %s, %s, %d without an answer, in %s", finding.Count(len(nodes), "Node"),
		finding.Count(questions, "question"), failed, f.Took.Round(100*time.Millisecond))
	return append([]string{sum}, lines...)
}

// unasked are lines about places that could not be asked from, one for each reason.
func (f *Facts) unasked() []string {
	type why struct {
		from   Place
		reason string
	}
	var order []why
	at := map[why][]string{}
	for i := range f.Sources {
		s := &f.Sources[i]
		if s.Unasked == "" {
			continue
		}
		w := why{s.From, finding.Clean(s.Unasked)}
		if at[w] == nil {
			order = append(order, w)
		}
		at[w] = append(at[w], finding.Clean(s.Node))
	}
	var lines []string
	for _, w := range order {
		where := "Node/" + at[w][0]
		if len(at[w]) > 1 {
			where = fmt.Sprintf("%d Nodes, %s", len(at[w]), some(at[w]))
		}
		lines = append(lines, fmt.Sprintf("not looked at: the network from %s of %s: it cannot be asked: %s", w.from.text(), where, w.reason))
	}
	return lines
}

// Blind reports whether something that was to be asked was not, so that no finding is no sign of health.
func (f *Facts) Blind() bool {
	return len(f.Sources) == 0 || len(f.Unknown) > 0 || slices.ContainsFunc(f.Sources, func(s Source) bool { return s.Unasked != "" })
}

// Complete reports whether all was asked that there is to ask.
func (f *Facts) Complete() bool { return len(f.Lines()) == 1 }

func (p Place) text() string {
	if p == Pod {
		return "a pod"
	}
	return "the machine"
}
