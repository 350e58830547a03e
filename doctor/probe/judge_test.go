package probe

import (
	"strings"
	"testing"

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
		"what cannot be asked is no finding": {
			sources: with(
				Source{Node: "w1", From: Machine, Unasked: "its kubelet has not begun the pod within 45s"},
				Source{Node: "w1", From: Pod, Unasked: "the same"},
			),
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{Targets: targets(), Sources: tt.sources}
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
