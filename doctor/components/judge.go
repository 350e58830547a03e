package components

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/requests"
	"github.com/ccmadm/ccmadm/templates"
)

// Settling is how long a pod may be unready, and a Node be there, until that is a deviation: images are pulled, probes pass.
const Settling = time.Minute

// JudgeKubeadm finds what kubeadm has made and is not there, or not ready: static pods, and DaemonSets that were deleted. A nil Seen has no
// deviation: nothing was seen.
func JudgeKubeadm(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	var list []finding.Finding
	for _, c := range Expected() {
		if c.Place == EachControlPlane {
			list = append(list, j.static(c)...)
		} else if !j.Has(c.Name) {
			list = append(list, j.deleted(c)...)
		}
	}
	return list
}

// JudgeServices finds the Services of a cluster of kubeadm that lead nowhere.
func JudgeServices(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	return j.services()
}

// Judge compares what runs with what is expected of it.
func Judge(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	var list []finding.Finding
	for _, c := range Expected() {
		if c.Place != EachControlPlane {
			list = append(list, j.workload(c)...)
		}
		list = append(list, j.lease(c)...)
	}
	list = append(list, j.others()...)
	list = append(list, j.networks()...)
	list = append(list, j.unlisted()...)
	list = append(list, j.pressure()...)
	list = append(list, j.sandboxes()...)
	return append(list, j.differences()...)
}

type judge struct {
	*Seen
	Cluster
}

// settled are Nodes on which everything has had the time to start.
func (j *judge) settled(match func(*corev1.Node) bool) []string {
	var names []string
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if match(n) && !j.Skip(n.Name) && j.Now.Sub(n.CreationTimestamp.Time) > Settling {
			names = append(names, n.Name)
		}
	}
	return names
}

// shortages are the conditions for which a kubelet evicts pods, each with the command that shows what is used.
func shortages() map[corev1.NodeConditionType]string {
	return map[corev1.NodeConditionType]string{
		corev1.NodeDiskPressure: "df -h", corev1.NodeMemoryPressure: "free -h", corev1.NodePIDPressure: "ps -e --no-headers | wc -l",
	}
}

// pressure finds Nodes whose kubelet evicts pods. A Node that does not report any more has conditions of the past.
func (j *judge) pressure() []finding.Finding {
	var list []finding.Finding
	commands := shortages()
	for i := range j.Nodes {
		n := &j.Nodes[i]
		for _, c := range n.Status.Conditions {
			command, short := commands[c.Type]
			if !short || c.Status != corev1.ConditionTrue || j.Skip(n.Name) {
				continue
			}
			f := finding.NodePressure.New("Node/"+n.Name, fmt.Sprintf("condition %s: %s", c.Type, c.Message))
			f.Next = "on " + n.Name + ": " + command
			list = append(list, f)
		}
	}
	return list
}

// static judges a component that each control plane has as a static pod. Who is a control plane, kubeadm's label says.
func (j *judge) static(c Component) []finding.Finding {
	if !j.Kubeadm || c.Name == Etcd && j.ExternalEtcd {
		return nil
	}
	pods := map[string]*corev1.Pod{}
	for i := range j.Static {
		if p := &j.Static[i]; p.Labels[v1alpha1.ComponentLabel] == c.Name {
			pods[p.Spec.NodeName] = p
		}
	}
	all := j.settled(nodes.IsControlPlane)
	ready := 0
	for _, node := range all {
		if p := pods[node]; p != nil && nodes.IsPodReady(p) {
			ready++
		}
	}
	var list []finding.Finding
	var there []*corev1.Pod
	count := fmt.Sprintf("%s: ready on %d of %d control planes", c.Name, ready, len(all))
	for _, node := range all {
		if p := pods[node]; p != nil {
			there = append(there, p)
			continue
		}
		f := finding.ComponentMissing.New("Node/"+node, count+", and has no static pod on "+node+": "+c.lost(ready))
		f.Next = j.restore(c.Name, node)
		if c.Name == Etcd {
			f.Do = j.rejoin()
		}
		list = append(list, f)
	}
	list = append(list, j.restarting(c.Name, there)...)
	return append(list, j.unready("", there, count, c.lost(ready))...)
}

// workload judges a DaemonSet or Deployment of kubeadm's, or ours, where there is one.
func (j *judge) workload(c Component) []finding.Finding {
	i := slices.IndexFunc(j.Workloads, func(w Workload) bool { return w.Name == c.Name })
	if i < 0 {
		return nil
	}
	w := &j.Workloads[i]
	switch {
	case !w.Observed:
		return nil // a controller is about to see it
	case c.Place == EachNode && c.Selector != nil && w.Wanted == 0:
		if _, replaced := w.Selector[replacedByCalico]; replaced {
			return nil
		}
		return j.unselected(c, w)
	case w.Kind == daemonSet:
		return append(j.withoutPod(c, w), j.podsOf(w, c.Without)...)
	case w.Ready == 0:
		return j.noneReady(c, w)
	}
	list := j.podsOf(w, "") // the pods that are ready do its work
	for i := range list {
		if w.Ready >= w.Wanted { // those that are to replace them do not start
			list[i].Severity = finding.SeverityWarning
		}
	}
	return list
}

// deleted is about a DaemonSet that is not there, though its ConfigMap is. Who replaces kube-proxy deletes both, by the documents of
// Cilium; by those of kube-router the ConfigMap stays.
func (j *judge) deleted(c Component) []finding.Finding {
	if !j.Kubeadm || c.Place != EachNode || !slices.Contains(j.Configured, c.Name) || len(j.Nodes) == 0 ||
		slices.ContainsFunc(j.Workloads, func(w Workload) bool { return slices.Contains(replacements(), w.Name) }) ||
		slices.ContainsFunc(j.Networks, func(n nodes.PodNetwork) bool { return slices.Contains(replacements(), n.Name) }) {
		return nil
	}
	f := finding.ComponentMissing.New(daemonSet+"/kube-system/"+c.Name, fmt.Sprintf(
		"%s: wanted on all of %d Nodes, and there is no DaemonSet, though ConfigMap/kube-system/%s is there: %s", c.Name, len(j.Nodes), c.Name, c.Without))
	f.Severity = finding.SeverityWarning
	f.Do = "if a CNI plugin does its work, delete the ConfigMap; only if none does, make it again"
	f.Next = restoreAddon(c.Name)
	return []finding.Finding{f}
}

// replacements are DaemonSets that may do kube-proxy's work.
func replacements() []string {
	return []string{"antrea-agent", "cilium", "kube-ovn-cni", "kube-router"}
}

// replacedByCalico is the nodeSelector with which Calico's documents take kube-proxy away for the eBPF data plane.
const replacedByCalico = "non-calico"

// unselected is about a DaemonSet of kubeadm's whose nodeSelector matches no Node.
func (j *judge) unselected(c Component, w *Workload) []finding.Finding {
	if len(j.Nodes) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s: wanted on all of %d Nodes, and its controller wants 0 pods: %s", w.Name, len(j.Nodes), c.Without)
	f := finding.ComponentMissing.New(w.object(), message)
	f.Next = "kubectl -n kube-system get daemonset " + w.Name + " -o jsonpath={.spec.template.spec}"
	if !maps.Equal(w.Selector, c.Selector) {
		f.Message += "; its nodeSelector is " + labels(w.Selector) + ", and kubeadm writes " + labels(c.Selector)
		f.Next = fmt.Sprintf(`kubectl -n kube-system patch daemonset %s --type=json `+
			`-p '[{"op":"replace","path":"/spec/template/spec/nodeSelector","value":{"%s":"linux"}}]'`, w.Name, corev1.LabelOSStable)
	}
	return []finding.Finding{f}
}

// withoutPod is about Nodes on which a DaemonSet wants a pod and has none: its pods are refused, or nothing makes them.
func (j *judge) withoutPod(c Component, w *Workload) []finding.Finding {
	if j.lacks(w) <= 0 {
		return nil
	}
	missing := slices.DeleteFunc(j.settled(w.selects), func(node string) bool { return slices.Contains(w.Nodes, node) })
	if len(missing) == 0 {
		return nil
	}
	f := finding.ComponentMissing.New(w.object(), fmt.Sprintf("%s: %d of %d Nodes have its pod, and %s not: %s",
		w.Name, len(w.Nodes), w.Wanted, nodes.Some(missing, 5), c.Without))
	return []finding.Finding{j.withRefusal(f, w)}
}

// lacks is how many of its pods are not there. The status of a DaemonSet is behind its pods for a moment in each rollout.
func (j *judge) lacks(w *Workload) int {
	return int(w.Wanted) - max(len(w.Nodes), int(w.Ready)+len(j.failing(w)))
}

// failing are its pods that are there and not ready.
func (j *judge) failing(w *Workload) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range j.Unready {
		p := &j.Unready[i]
		if kind, name := Owner(p); kind == w.Kind && name == w.Name && !nodes.LeftOver(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// node is that of a name; nil: it was not seen.
func (j *judge) node(name string) *corev1.Node {
	i := slices.IndexFunc(j.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Nodes[i]
}

// selects tells whether the nodeSelector of its pods matches a Node.
func (w *Workload) selects(n *corev1.Node) bool {
	for key, value := range w.Selector {
		if n.Labels[key] != value {
			return false
		}
	}
	return true
}

// withRefusal adds to a finding about missing pods what the controller was told, and what shows who refuses them.
func (j *judge) withRefusal(f finding.Finding, w *Workload) finding.Finding {
	f.Next = "kubectl -n kube-system describe " + strings.ToLower(w.Kind) + " " + w.Name
	e := j.refusal(w)
	if e == nil {
		return f
	}
	f.Message += "; its controller says: " + nodes.Shorten(e.Message)
	if _, next := requests.Refuser(v1alpha1.Namespace, e.Message); next != "" {
		f.Next = next
	}
	return f
}

// noneReady is about a Deployment without a ready pod.
func (j *judge) noneReady(c Component, w *Workload) []finding.Finding {
	if w.Wanted == 0 {
		f := finding.ComponentMissing.New(w.object(), w.Name+": scaled to 0: "+c.Without)
		f.Next = "kubectl -n kube-system scale deployment/" + w.Name + " --replicas=2"
		return []finding.Finding{f}
	}
	if list := j.podsOf(w, c.Without); len(list) > 0 || j.waitsForNodes() {
		return list
	}
	if len(j.failing(w)) > 0 {
		return nil // they have just been made
	}
	f := finding.ComponentMissing.New(w.object(), fmt.Sprintf("%s: 0 of %d pods are ready, and none is there: %s", w.Name, w.Wanted, c.Without))
	return []finding.Finding{j.withRefusal(f, w)}
}

// waitsForNodes says that pods are pending and every Node's state, said elsewhere, is why.
func (j *judge) waitsForNodes() bool {
	return !slices.ContainsFunc(j.Nodes, func(n corev1.Node) bool { return !j.Skip(n.Name) })
}

// podsOf are deviations of a workload's pods.
func (j *judge) podsOf(w *Workload, without string) []finding.Finding {
	return j.unready(w.object(), j.failing(w), fmt.Sprintf("%s: %d of %d pods are ready", w.Name, w.Ready, w.Wanted), without)
}

// refusal is the latest Event by which a workload, or what it has made, was told that it may not make a pod. Nil: none.
func (j *judge) refusal(w *Workload) *corev1.Event {
	var last *corev1.Event
	for i := range j.Events {
		e := &j.Events[i]
		about := e.Reason == "FailedCreate" && e.InvolvedObject.Namespace == v1alpha1.Namespace &&
			(e.InvolvedObject.Name == w.Name || strings.HasPrefix(e.InvolvedObject.Name, w.Name+"-"))
		seen := nodes.LastSeen(e)
		if about && j.Now.Sub(seen) < nodes.RecentEvent && (last == nil || seen.After(nodes.LastSeen(last))) {
			last = e
		}
	}
	return last
}

// lease is about a component of which none is active, though pods of it are ready.
func (j *judge) lease(c Component) []finding.Finding {
	i := slices.IndexFunc(j.Leases, func(l coordinationv1.Lease) bool {
		return c.Lease != "" && l.Namespace == v1alpha1.Namespace && l.Name == c.Lease
	})
	if i < 0 || j.Leases[i].Spec.RenewTime == nil {
		return nil
	}
	l := &j.Leases[i]
	age := j.Now.Sub(l.Spec.RenewTime.Time)
	elects, alone := false, false
	for _, p := range j.of(c.Name) {
		if nodes.IsPodReady(p) {
			off := argument(templates.OwnContainer(&p.Spec, c.Name), "leader-elect") == "false" // it works without the Lease
			elects, alone = elects || !off, alone || off
		}
	}
	if nodes.Renewed(l, j.Now) || age < Settling || !elects || alone {
		return nil // without a ready pod, that is why
	}
	f := finding.ComponentWithoutLeader.New("Lease/"+v1alpha1.Namespace+"/"+l.Name,
		fmt.Sprintf("%s: no instance is active: the Lease was renewed last %s ago, by %s: %s",
			c.Name, age.Round(time.Second), finding.Clean(nodes.Holder(l)), c.Without))
	f.Next = "kubectl -n kube-system logs -l component=" + c.Name + " --tail 30"
	return []finding.Finding{f}
}

func labels(m map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+m[key])
	}
	if len(list) == 0 {
		return "empty"
	}
	return finding.Clean(strings.Join(list, ","))
}

// of are the static pods of a component.
func (j *judge) of(component string) []*corev1.Pod {
	var list []*corev1.Pod
	for i := range j.Static {
		if p := &j.Static[i]; p.Labels[v1alpha1.ComponentLabel] == component && len(p.Spec.Containers) > 0 {
			list = append(list, p)
		}
	}
	return list
}
