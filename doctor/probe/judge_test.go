package probe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
)

// The targets of played facts.
const (
	service = iota
	endpoint
	dnsUDP
	dnsTCP
	kubelet1
	kubelet2
	kubelet3
	balancer
)

func targets() []Target {
	return []Target{
		{Subject: Service, Object: "Service/default/kubernetes", Address: "10.96.0.1:443"},
		{Subject: Endpoint, Address: "api.example:6443"},
		{Subject: DNSUDP, Object: "Service/kube-system/kube-dns", Address: "10.96.0.10:53", Name: "kubernetes.default.svc.cluster.local."},
		{Subject: DNSTCP, Object: "Service/kube-system/kube-dns", Address: "10.96.0.10:53", Name: "kubernetes.default.svc.cluster.local."},
		{Subject: Kubelet, Object: "Node/w1", Address: "192.0.2.1:10250"},
		{Subject: Kubelet, Object: "Node/w2", Address: "192.0.2.2:10250"},
		{Subject: Kubelet, Object: "Node/w3", Address: "192.0.2.3:10250"},
		{Subject: Balancer, Object: "Service/web/site", Address: "203.0.113.5:80"},
	}
}

// answered is a place from which all was asked but the Node's own kubelet, and where some did not answer.
func answered(node string, from Place, failed ...Failure) Source {
	s := Source{Node: node, From: from, Answer: Answer{Version: 1, Failed: failed, Forwarding: "1", Link: "eth0", MTU: 1500}}
	for i, t := range targets() {
		if t.Object != "Node/"+node && (from == Machine || t.Subject != Kubelet) {
			s.Asked = append(s.Asked, i)
		}
	}
	s.Answer.Asked = len(s.Asked)
	return s
}

func fails(target int, kind Unreachable) Failure {
	return Failure{Target: target, Kind: kind, Error: "dial: " + strings.ToLower(string(kind))}
}

// set changes what a place says of its machine.
func set(s Source, change func(*Answer)) Source {
	change(&s.Answer)
	return s
}

// TestFindings judges played answers: each finding is named with its Node, and with words of what was asked and what came.
func TestFindings(t *testing.T) {
	well := func(node string) []Source { return []Source{answered(node, Machine), answered(node, Pod)} }
	with := func(list ...Source) []Source {
		for _, node := range []string{"w1", "w2", "w3"} {
			for _, s := range well(node) {
				there := false
				for _, given := range list {
					there = there || given.Node == s.Node && given.From == s.From
				}
				if !there {
					list = append(list, s)
				}
			}
		}
		return list
	}
	for name, tt := range map[string]struct {
		sources []Source
		only    []string
		want    []string // ID object words, with | between words
		not     string
	}{
		"nothing is wrong": {sources: with()},
		"a firewall before the Service, on one Node": {
			sources: with(answered("w1", Machine, fails(service, Dropped)), answered("w1", Pod, fails(service, Dropped))),
			want:    []string{"T1 Node/w1 10.96.0.1:443|from the machine and from a pod|there is no answer|next:k8s-app=kube-proxy"},
		},
		"only from a pod": {
			sources: with(answered("w1", Pod, fails(service, Refused))),
			want:    []string{"T1 Node/w1 from a pod, and not from the machine|refused|next:nft list ruleset"},
		},
		"the machine alone": {
			sources: with(answered("w1", Machine, fails(endpoint, NoRoute))),
			want:    []string{"T2 Node/w1 api.example:6443|the machine, and not from a pod|no way|next:on w1: ip route get api.example"},
		},
		"name of the endpoint": {
			sources: with(answered("w2", Machine, fails(endpoint, NameUnknown))),
			want:    []string{"T2 Node/w2 the name is not known|next:getent hosts api.example"},
		},
		"TLS": {
			sources: with(answered("w2", Machine, fails(endpoint, BadCertificate))),
			want:    []string{"T2 Node/w2 TLS|certificate|next:openssl s_client -connect api.example:6443"},
		},
		"DNS by TCP": {
			sources: with(answered("w3", Machine, fails(dnsTCP, Dropped)), answered("w3", Pod, fails(dnsTCP, Dropped))),
			want:    []string{"T3 Node/w3 by TCP for kubernetes.default.svc.cluster.local|no answer"}, not: "by UDP",
		},
		"DNS does not know the name": {
			sources: with(answered("w3", Pod, fails(dnsUDP, NameUnknown))),
			want:    []string{"T3 Node/w3 by UDP|the name is not known|next:logs -l k8s-app=kube-dns"},
		},
		"a kubelet from one Node": {
			sources: with(answered("w1", Machine, Failure{Target: kubelet2, Kind: Dropped, Ping: "yes"})),
			want:    []string{"T4 Node/w1 kubelet of Node/w2 at 192.0.2.2:10250|no answer|answers ping|next:ip route get 192.0.2.2"},
		},
		"a kubelet from no Node is that Node's": {
			sources: with(answered("w1", Machine, fails(kubelet2, Refused)), answered("w3", Machine, fails(kubelet2, Refused))),
			want:    []string{"T4 Node/w2 none of 2 Nodes|192.0.2.2:10250|refused|next:on w2: systemctl status kubelet"},
		},
		"a load balancer": {
			sources: with(answered("w1", Machine, fails(balancer, Dropped)), answered("w1", Pod, fails(balancer, Dropped))),
			want:    []string{"T5 Node/w1 Service/web/site at 203.0.113.5:80|no answer"},
		},
		"several of one kind are one finding, as a diagnosis has one for an ID and an object": {
			sources: with(
				answered("w1", Machine, fails(kubelet2, Dropped), fails(kubelet3, Dropped), fails(dnsUDP, Dropped), fails(dnsTCP, Refused)),
			),
			want: []string{
				"T3 Node/w1 by UDP|without an answer, too: Service/kube-system/kube-dns at 10.96.0.10:53 by TCP",
				"T4 Node/w1 192.0.2.2:10250|without an answer, too: kubelet of Node/w3",
			},
		},
		"of named Nodes, one that was not named is not at fault": {
			sources: with(answered("w1", Machine, fails(kubelet2, Refused)), answered("w3", Machine, fails(kubelet2, Refused))),
			only:    []string{"w1", "w3"},
			want:    []string{"T4 Node/w1 kubelet of Node/w2", "T4 Node/w3 kubelet of Node/w2"},
		},
		"name servers that do not answer": {
			sources: with(answered("w2", Machine, fails(endpoint, NameUnresolved))),
			want:    []string{"T2 Node/w2 do not say whether the name is known|next:cat /etc/resolv.conf"}, not: "is not known",
		},
		"forwarding is off: what its pods do not reach stands there": {
			sources: with(
				set(answered("w1", Machine), func(a *Answer) { a.Forwarding = "0" }),
				answered("w1", Pod, fails(service, Dropped), fails(dnsUDP, Dropped)),
			),
			want: []string{"T6 Node/w1 ip_forward is 0|of 5 that a pod there asked 2 did not answer|next:sysctl -w net.ipv4.ip_forward=1"},
		},
		"forwarding is off, and the machine has no answer either": {
			sources: with(
				set(answered("w1", Machine, fails(service, Dropped)), func(a *Answer) { a.Forwarding = "0" }),
				answered("w1", Pod, fails(service, Dropped)),
			),
			want: []string{"T6 Node/w1 ip_forward", "T1 Node/w1 10.96.0.1:443"},
		},
		"links": {
			sources: with(set(answered("w3", Machine), func(a *Answer) { a.MTU = 1400 })),
			want: []string{
				"T7 Node/w3 eth0 has MTU 1400|2 other Nodes has 1500|next:ip link show eth0", "T8 Node/w3 pods there have MTU 1500",
			},
		},
		"pods have a second link, with larger packets": {
			sources: with(
				set(answered("w3", Machine), func(a *Answer) { a.Largest = 9000 }),
				set(answered("w3", Pod), func(a *Answer) { a.MTU = 8950 }),
			),
		},
		"what cannot be asked is no finding": {
			sources: with(
				Source{Node: "w1", From: Machine, Unasked: "its kubelet has not begun the pod within 45s"},
				Source{Node: "w1", From: Pod, Unasked: "the same"},
			),
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{Targets: targets(), Sources: tt.sources, Only: tt.only}
			got := f.Findings()
			if len(got) != len(tt.want) {
				t.Errorf("got %d findings, want %d: %+v", len(got), len(tt.want), got)
				return
			}
			for i, want := range tt.want {
				fields := strings.SplitN(want, " ", 3)
				if string(got[i].ID) != fields[0] || got[i].Object != fields[1] {
					t.Errorf("got %s %s, want %s", got[i].ID, got[i].Object, want)
				}
				for word := range strings.SplitSeq(fields[2], "|") {
					text := got[i].Message
					if next, is := strings.CutPrefix(word, "next:"); is {
						text, word = got[i].Next, next
					}
					if !strings.Contains(text, word) {
						t.Errorf("%q is not in %q", word, text)
					}
				}
				if got[i].Next == "" || tt.not != "" && strings.Contains(got[i].Message, tt.not) {
					t.Errorf("got %+v", got[i])
				}
			}
		})
	}
}

// TestLines: what was not asked is listed, and makes the facts incomplete.
func TestLines(t *testing.T) {
	f := Facts{Targets: targets(), Sources: []Source{answered("w1", Machine, fails(service, Dropped)), answered("w1", Pod)}}
	if got := f.Lines(); !f.Complete() || len(got) != 1 || !strings.Contains(got[0], "1 Node, 12 questions, 1 without an answer") {
		t.Errorf("got %q", got)
	}
	f.Sources = append(f.Sources, Source{Node: "w2\x1b[31m", From: Pod, Unasked: "start the pod: ErrImagePull"},
		set(answered("w3", Machine), func(a *Answer) { a.Cut = 3 }))
	f.NotLooked = []string{"DNS: the cluster has no Service/kube-system/kube-dns"}
	text := strings.Join(f.Lines(), "\n")
	for _, want := range []string{
		"not looked at: the network from a pod of Node/w2", "it cannot be asked: start the pod: ErrImagePull", "which 3 more of 7",
		"not looked at: DNS: the cluster has no",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if f.Complete() || strings.Contains(text, "\x1b") {
		t.Errorf("got %q", text)
	}
}

// TestLines_Many: places with the same reason are one line, however many Nodes there are.
func TestLines_Many(t *testing.T) {
	f := Facts{}
	for i := range 1000 {
		f.Sources = append(f.Sources, Source{Node: fmt.Sprintf("w%d", i), From: Machine, Unasked: "there was no time left"})
	}
	lines := f.Lines()
	if len(lines) != 2 || !strings.Contains(lines[1], "machine of 1000 Nodes, w0, w1, w2, w3, w4 and 995 more: it cannot be asked: there was") {
		t.Errorf("got %d lines, such as %q", len(lines), lines[1])
	}
}

// TestBlind: what was to be asked and could not be is no sign of health; what there is not, and what need not be asked, does not count.
func TestBlind(t *testing.T) {
	asked := []Source{answered("w1", Machine), answered("w1", Pod)}
	for name, tt := range map[string]struct {
		facts Facts
		want  bool
	}{
		"all":                    {Facts{Sources: asked}, false},
		"no DNS":                 {Facts{Sources: asked, NotLooked: []string{"DNS: the cluster has none"}}, false},
		"DNS may not be read":    {Facts{Sources: asked, Unknown: []string{"DNS: forbidden"}}, true},
		"a pod did not start":    {Facts{Sources: []Source{asked[0], {Node: "w1", From: Pod, Unasked: "ErrImagePull"}}}, true},
		"there is no Linux Node": {Facts{}, true},
	} {
		if got := tt.facts.Blind(); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

// TestFindings_Large judges a cluster of 1,000 Nodes, each of which asks for the next 20, in seconds.
func TestFindings_Large(t *testing.T) {
	const nodes = 1000
	f := Facts{Targets: targets()}
	for i := range nodes {
		node, address := fmt.Sprintf("Node/n%d", i), fmt.Sprintf("192.0.2.1:%d", i+1)
		f.Targets = append(f.Targets, Target{Subject: Kubelet, Object: node, Address: address})
	}
	for i := range nodes {
		for _, from := range []Place{Machine, Pod} {
			s := Source{Node: fmt.Sprintf("n%d", i), From: from, Answer: Answer{Version: 1}}
			for k := range 20 {
				s.Asked = append(s.Asked, len(targets())+(i+k+1)%nodes)
			}
			s.Answer.Failed = []Failure{fails(s.Asked[0], Dropped)}
			f.Sources = append(f.Sources, s)
		}
	}
	began := time.Now()
	got := f.Findings()
	if took := time.Since(began); took > time.Minute || len(got) != nodes {
		t.Errorf("%d findings in %s", len(got), took)
	}
	t.Logf("%d findings in %s", len(got), time.Since(began))
}

// Facts of a file may have indices of no target.
func TestFindings_HostileFacts(t *testing.T) {
	f := Facts{Targets: targets(), Sources: []Source{answered("w1", Machine, fails(99, Dropped), fails(-1, Refused))}}
	f.Sources[0].Asked = []int{99, -1}
	if got := f.Findings(); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := f.Of(finding.NodeForwardingOff); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
