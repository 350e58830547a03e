package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// foreignLeader finds a Lease whose holder is no pod of the manager, while those run.
func foreignLeader(v *view) []finding.Finding {
	m := v.main()
	if m == nil || nodes.Unelected(m.pod) || !v.leads() || !slices.ContainsFunc(m.pods, running) || v.leader(m) != nil {
		return nil
	}
	lease := v.leaseOf(m)
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return nil
	}
	host := nodes.HolderHost(lease)
	if m.nodeOf(host) || !v.standsBy(m) && (!v.waits() || !v.isElsewhere(m, host)) {
		return nil
	}
	does := "renews it"
	if age := v.facts.LeaseAge(); age > time.Minute { // what lasts longer may be held, and its holder gone
		does = "renewed it last " + age.Round(time.Second).String() + " ago, and holds it until it expires"
	}
	f := finding.ForeignLeader.New("Lease/"+lease.Namespace+"/"+lease.Name,
		fmt.Sprintf("%s %s, which is no pod of %s", nodes.Holder(lease), does, m.object))
	f.Next = "kubectl get pods -A -o wide | grep " + host
	return []finding.Finding{f}
}

// leader is the manager's pod that the Lease names; nil where it names none of them.
func (v *view) leader(m *manager) *corev1.Pod {
	lease := v.leaseOf(m)
	i := slices.IndexFunc(m.pods, func(p *corev1.Pod) bool { return nodes.Holds(lease, p) })
	if i < 0 {
		return nil
	}
	return m.pods[i]
}

// lastsLong is beyond what a manager waits for by itself: its own Leases last 15 s, OpenShift's 137.
const lastsLong = 3 * time.Minute

// abandonedLease finds one that has run out by the time that its holder wrote, was not renewed while it was looked at,
// and lasts so long that the manager, which counts from when it has seen it first, still waits for it.
func abandonedLease(v *view) []finding.Finding {
	m := v.main()
	if m == nil || v.leads() || !slices.ContainsFunc(m.pods, running) || !v.standsBy(m) {
		return nil
	}
	lease := v.leaseOf(m)
	if nodes.Holder(lease) == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return nil
	}
	lasts, age := time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, v.since(lease.Spec.RenewTime.Time)
	if lasts < lastsLong || age < lasts+clocksApart {
		return nil
	}
	f := finding.LeaseAbandoned.New("Lease/"+lease.Namespace+"/"+lease.Name,
		fmt.Sprintf("%s has not renewed it for %s, and all pods of %s wait for it; it lasts %s, counted from each of their "+
			"starts",
			nodes.Holder(lease), age.Round(time.Second), m.object, lasts))
	f.Next = "kubectl -n " + lease.Namespace + " delete lease " + lease.Name
	return []finding.Finding{f}
}

var (
	asksForLease = regexp.MustCompile(`(?i)attempting to acquire leader lease`)
	hasLease     = regexp.MustCompile(`(?i)successfully acquired lease`)
)

// standsBy says that each pod of the manager that runs tells that it waits for the Lease, and not that it has got it
// since.
func (v *view) standsBy(m *manager) bool {
	some := false
	for _, p := range m.pods {
		if !running(p) {
			continue
		}
		waits := false
		for _, line := range v.Logs[p.Name] {
			waits = asksForLease.MatchString(line) || waits && !hasLease.MatchString(line)
		}
		if !waits {
			return false
		}
		some = true
	}
	return some
}

// isElsewhere says, where no log was read, that the holder's name alone tells that it is no pod of the manager. A pod
// without a network of its own has its machine's hostname, which need not be the Node's name: one that fits no Node may
// be the manager's.
func (v *view) isElsewhere(m *manager, host string) bool {
	if slices.ContainsFunc(m.pods, func(p *corev1.Pod) bool { return len(v.Logs[p.Name]) > 0 }) {
		return false
	}
	return !m.pod.HostNetwork || slices.ContainsFunc(v.Nodes, func(n corev1.Node) bool { return sameHost(n.Name, host) })
}

// nodeOf reports whether a Node where a pod of the manager runs may call itself so.
func (m *manager) nodeOf(host string) bool {
	return slices.ContainsFunc(m.pods, func(p *corev1.Pod) bool { return sameHost(p.Spec.NodeName, host) })
}

// sameHost compares hostnames, with or without their domains.
func sameHost(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b
}

func running(p *corev1.Pod) bool {
	return slices.ContainsFunc(
		p.Status.ContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.State.Running != nil },
	)
}

// twoManagers finds two that initialize nodes, with Leases of their own that are both renewed.
func twoManagers(v *view) []finding.Finding {
	var names, leases []string
	for i := range v.managers {
		m := &v.managers[i]
		lease := m.leaseName()
		if namespace := m.leaseNamespace(); namespace != v1alpha1.Namespace {
			lease = namespace + "/" + lease
		}
		if !m.initializes() || withoutNodeController(m) || !slices.ContainsFunc(m.pods, running) ||
			slices.Contains(leases, lease) || !v.renewed(v.leaseOf(m)) {
			continue
		}
		names, leases = append(names, m.object), append(leases, lease)
	}
	if len(names) < 2 {
		return nil
	}
	f := finding.TwoManagers.New(names[0], join(names)+" run at the same time, each as the leader of its own Lease: "+join(leases))
	f.Next = "kubectl get pods -A -o wide | grep -e cloud -e ccm"
	return []finding.Finding{f}
}

// sharedLease finds two workloads that initialize Nodes with different arguments, and ask for one Lease. With the same arguments they
// are two parts of one, such as for two kinds of machines. A program that is not known counts where its arguments say which Lease.
func sharedLease(managers []manager) []finding.Finding {
	first := map[string]*manager{}
	for i := range managers {
		m := &managers[i]
		if !m.initializes() || withoutNodeController(m) || nodes.Unelected(m.pod) || !slices.ContainsFunc(m.pods, running) ||
			m.Profile == nil && m.arg("leader-elect-resource-name") == "" {
			continue
		}
		lease := m.leaseNamespace() + "/" + m.leaseName()
		other := first[lease]
		if other == nil {
			first[lease] = m
			continue
		}
		if sameArgs(m, other) {
			continue
		}
		f := finding.LeaseShared.New("Lease/"+lease, other.object+" and "+m.object+" run with different arguments, and both ask for Lease "+lease)
		f.Next = "kubectl get pods -A -o wide | grep -e cloud -e ccm"
		return []finding.Finding{f}
	}
	return nil
}

// sameArgs compares what they do, and not what they log.
func sameArgs(a, b *manager) bool {
	text := func(m *manager) []string {
		var list []string
		for _, arg := range m.Args {
			if arg.Name != "v" && arg.Name != "vmodule" {
				list = append(list, arg.Name+"="+arg.Value)
			}
		}
		slices.Sort(list)
		return list
	}
	return slices.Equal(text(a), text(b))
}

// withoutNodeController says that --controllers leaves it out.
func withoutNodeController(m *manager) bool {
	return m.leavesOut("cloud-node", "cloud-node-controller")
}

// makesRoutes says that the manager is told to make routes to Nodes. Without being told, it does where its cloud has routes, which for many
// hangs on the cloud's configuration.
func (m *manager) makesRoutes() bool {
	return m.arg("configure-cloud-routes") == "true" && !m.leavesOut("route", "node-route-controller")
}

// leavesOut says that --controllers leaves one out, by its alias or its name (k8s.io/cloud-provider names). The flag adds to what it had
// where it is given again, and the first entry that names the controller counts.
func (m *manager) leavesOut(alias, name string) bool {
	all, listed := false, false
	for _, a := range m.Args {
		if a.Name != "controllers" || a.Value == "" {
			continue
		}
		listed = true
		for word := range strings.SplitSeq(a.Value, ",") {
			switch word {
			case alias, name:
				return false
			case "-" + alias, "-" + name:
				return true
			case "*":
				all = true
			}
		}
	}
	return listed && !all
}

// kubeletsWithoutNode finds kubelets that renew their Lease, and have no Node: one was deleted under them. The Lease
// goes with the Node where a kube-controller-manager runs, and is not made again: then only the machine tells
// (withoutNode).
func kubeletsWithoutNode(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.Heartbeats {
		l := &v.Heartbeats[i]
		if v.byName[l.Name] != nil || !v.renewed(l) || v.since(l.CreationTimestamp.Time) < 30*time.Second {
			continue
		}
		list = append(list, v.kubeletWithoutNode(l.Name, "its kubelet renews its Lease, and its Node does not exist"))
	}
	return list
}

// kubeletWithoutNode says who has deleted the Node, as far as an Event tells.
func (v *view) kubeletWithoutNode(name, message string) finding.Finding {
	name = finding.Clean(name)
	deleted := slices.ContainsFunc(v.Events, func(e corev1.Event) bool {
		return e.Reason == "DeletingNode" && e.InvolvedObject.Name == name
	})
	if deleted {
		message += ": a cloud-controller-manager deleted it, because its cloud does not know the machine (Event DeletingNode)"
	}
	f := finding.KubeletWithoutNode.New("Node/"+name, message)
	f.Next = "once the cause is corrected, on " + name + ": systemctl restart kubelet"
	return f
}

// clocksApart is by how much a kubelet's clock may differ from the API server's.
const clocksApart = 5 * time.Minute

// balances tells whether a manager serves load balancers, as far as is known.
func (m *manager) balances() bool {
	return (m.Profile == nil || m.Profile.Has(templates.Services)) && !m.leavesOut("service", "service-lb-controller")
}
