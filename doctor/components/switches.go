package components

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// controller is one of kube-controller-manager's without which a cluster of kubeadm does not work.
type controller struct {
	// names are those that --controllers takes for it (kubernetes cmd/kube-controller-manager/names).
	names   []string
	without string
	// with is a flag without which, set to true, it has nothing to do.
	with string
}

// The short names of controllers that others depend on.
const (
	signing   = "csrsigning"
	approving = "csrapproving"
	ipam      = "nodeipam"
)

func controllers() []controller {
	return []controller{
		{[]string{"deployment", "deployment-controller"}, "Deployments get no ReplicaSets", ""},
		{[]string{"replicaset", "replicaset-controller"}, "Deployments get no pods", ""},
		{[]string{"daemonset", "daemonset-controller"}, "new Nodes get no pods of DaemonSets, such as kube-proxy", ""},
		{[]string{"statefulset", "statefulset-controller"}, "StatefulSets get no pods", ""},
		{[]string{"job", "job-controller"}, "Jobs get no pods", ""},
		{[]string{"endpointslice", "endpointslice-controller"}, "Services do not follow their pods", ""},
		{[]string{"namespace", "namespace-controller"}, "deleted namespaces stay", ""},
		{[]string{"garbagecollector", "garbage-collector-controller"}, "objects of deleted owners stay", ""},
		{[]string{"serviceaccount", "serviceaccount-controller"}, "new namespaces get no ServiceAccount default, and no pods", ""},
		{
			[]string{"root-ca-cert-publisher", "root-ca-certificate-publisher-controller"},
			"pods of new namespaces do not start: they mount the CA", "",
		},
		{[]string{"nodelifecycle", "node-lifecycle-controller"}, "Nodes whose kubelet does not report stay Ready", ""},
		{[]string{"taint-eviction-controller"}, "pods of lost Nodes are not made elsewhere", ""},
		{[]string{"podgc", "pod-garbage-collector-controller"}, "pods of deleted Nodes stay", ""},
		{[]string{ipam, "node-ipam-controller"}, "new Nodes get no network for pods", "allocate-node-cidrs"},
		{[]string{"persistentvolume-binder", "persistentvolume-binder-controller"}, "claims get no volumes", ""},
		{[]string{signing, "certificatesigningrequest-signing-controller"}, "approved certificate requests get no certificate", ""},
		{[]string{approving, "certificatesigningrequest-approving-controller"}, "machines that join get no certificate", ""},
	}
}

// off says that --controllers leaves it out, and as which entry; empty: it does not name it. As kube-controller-manager reads it, the first
// entry that names it counts.
func (c *controller) off(container *corev1.Container) (entry string, off bool) {
	list := listed(container, "controllers")
	if list == "" || c.with != "" && argument(container, c.with) != "true" {
		return "", false
	}
	all := false
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		switch {
		case slices.Contains(c.names, word):
			return "", false
		case strings.HasPrefix(word, "-") && slices.Contains(c.names, word[1:]):
			return word, true
		case word == "*":
			all = true
		}
	}
	return "", !all
}

// JudgeSwitches finds controllers and versions of the API that the cluster needs, and that are switched off.
func JudgeSwitches(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil || !cluster.Kubeadm {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	return slices.Concat(j.controllersOff(), j.apisOff())
}

// AllocatesNetworks says that a kube-controller-manager gives Nodes their networks.
func AllocatesNetworks(container *corev1.Container) bool {
	_, off := controllerOf(ipam).off(container)
	return !off && argument(container, "allocate-node-cidrs") == "true"
}

func controllerOf(name string) *controller {
	all := controllers()
	return &all[slices.IndexFunc(all, func(c controller) bool { return c.names[0] == name })]
}

// JudgeNetworks finds that nothing gives Nodes their networks: the controller is off, and a Node that is not Ready has none. Where all have
// one, another allocator is there, such as a cloud-controller-manager; where Nodes are Ready without, the network add-on has its own.
// The remedy only looks: beside another allocator, or with Nodes outside of --cluster-cidr, the controller manager does not start with
// this controller.
func JudgeNetworks(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil || !cluster.Kubeadm {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	var lack []string
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if !nodestatus.IsReady(n) && n.Spec.PodCIDR == "" && len(n.Spec.PodCIDRs) == 0 && j.Now.Sub(n.CreationTimestamp.Time) > Settling {
			lack = append(lack, n.Name)
		}
	}
	c := controllerOf(ipam)
	var machines, pods []string
	for _, p := range j.of(ControllerManager) {
		if _, off := c.off(templates.OwnContainer(&p.Spec, ControllerManager)); off {
			machines, pods = append(machines, p.Spec.NodeName), append(pods, p.Name)
		}
	}
	switch {
	case len(lack) == 0:
		return nil
	case len(machines) == 0:
		return j.usedUp(lack)
	}
	f := finding.ControllerOff.New("Pod/kube-system/"+pods[0], "kube-controller-manager on "+nodes.Some(machines, 3)+
		" has --controllers without "+ipam+" ("+c.without+"), and of the Nodes that are not Ready these have none: "+nodes.Some(lack, 3)+
		"; nothing else gives them one, unless the network add-on does without")
	f.Severity = finding.SeverityWarning
	f.Next = "kubectl get nodes -o custom-columns=NODE:.metadata.name,PODS:.spec.podCIDRs"
	return []finding.Finding{f}
}

// usedUp is about Nodes that lack a network, where the controller that gives them some has none left (kubernetes
// pkg/controller/nodeipam/ipam/range_allocator.go). What of the network Services have is not counted.
func (j *judge) usedUp(lack []string) []finding.Finding {
	var list []finding.Finding
	for _, p := range j.of(ControllerManager) {
		c := templates.OwnContainer(&p.Spec, ControllerManager)
		if !AllocatesNetworks(c) || len(list) > 0 {
			continue
		}
		for text := range strings.SplitSeq(argument(c, "cluster-cidr"), ",") {
			all, err := netip.ParsePrefix(strings.TrimSpace(text))
			if err != nil {
				continue
			}
			size := maskOf(c, all)
			if given := j.given(all, size); size-all.Bits() < 24 && given >= 1<<max(size-all.Bits(), 0) {
				for _, node := range lack {
					f := finding.ID("F5").New("Node/"+node, fmt.Sprintf(
						"the network of pods %s is used up: all %d networks of size /%d are given to Nodes, and it has none", all, given, size))
					f.Severity = finding.SeverityError
					f.Do = "delete Nodes of machines that are gone, or give kube-controller-manager, kubeadm's podSubnet and the CNI plugin a larger " +
						"network that contains this one"
					f.Next = "kubectl get nodes -o custom-columns=NODE:.metadata.name,PODS:.spec.podCIDRs"
					list = append(list, f)
				}
				break
			}
		}
	}
	return list
}

// maskOf is the size of the network that each Node is given of another one.
func maskOf(c *corev1.Container, of netip.Prefix) int {
	family, size := "-ipv6", 64
	if of.Addr().Is4() {
		family, size = "-ipv4", 24
	}
	if n, err := strconv.Atoi(cmp.Or(argument(c, "node-cidr-mask-size"+family), argument(c, "node-cidr-mask-size"))); err == nil {
		return n
	}
	return size
}

// given counts the networks of a size that Nodes have of another one.
func (j *judge) given(of netip.Prefix, size int) int {
	taken := map[netip.Prefix]bool{}
	for i := range j.Nodes {
		for _, text := range j.Nodes[i].Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && of.Contains(p.Addr()) {
				if p, err = p.Addr().Prefix(size); err == nil {
					taken[p] = true
				}
			}
		}
	}
	return len(taken)
}

func (j *judge) controllersOff() []finding.Finding {
	on := map[string][]string{} // control planes by what is off there
	edits := map[string]string{}
	for _, p := range j.of(ControllerManager) {
		var what, edit []string
		for _, c := range controllers() {
			entry, off := c.off(templates.OwnContainer(&p.Spec, ControllerManager))
			if !off || c.names[0] == ipam {
				continue
			}
			what = append(what, c.names[0]+" ("+c.without+")")
			if entry != "" { // it is one of the table's
				edit = append(edit, without("controllers", entry))
			}
		}
		key := strings.Join(what, ", ")
		if key != "" {
			on[key], edits[key] = append(on[key], p.Spec.NodeName), strings.Join(edit, " ")
		}
	}
	var list []finding.Finding
	for _, what := range slices.Sorted(maps.Keys(on)) {
		machines := on[what]
		f := finding.ControllerOff.New("Node/"+machines[0], "kube-controller-manager on "+nodes.Some(machines, 3)+
			" has --controllers without "+what)
		const file = " /etc/kubernetes/manifests/kube-controller-manager.yaml"
		f.Next = "on " + nodes.Some(machines, 3) + ": sed -i " + edits[what] + file
		if edits[what] == "" {
			f.Next = "on " + nodes.Some(machines, 3) + ": grep -n -e --controllers" + file
		}
		list = append(list, f)
	}
	return list
}

// apis are the built-in versions of the API, with the resources, that components of every cluster use. The API server does not start
// without some of them; others it does without a word.
func apis() map[string][]string {
	return map[string][]string{
		"admissionregistration.k8s.io/v1": {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"},
		"apps/v1":                         {"deployments", "daemonsets", "replicasets", "statefulsets", "controllerrevisions"},
		"authentication.k8s.io/v1":        {"tokenreviews"},
		"authorization.k8s.io/v1":         {"subjectaccessreviews"},
		"batch/v1":                        {"jobs"},
		"certificates.k8s.io/v1":          {"certificatesigningrequests"},
		"coordination.k8s.io/v1":          {"leases"},
		"discovery.k8s.io/v1":             {"endpointslices"},
		"events.k8s.io/v1":                {"events"},
		"networking.k8s.io/v1":            {"ingresses", "networkpolicies"},
		"policy/v1":                       {"poddisruptionbudgets"},
		"rbac.authorization.k8s.io/v1":    {"clusterroles", "clusterrolebindings", "roles", "rolebindings"},
		"scheduling.k8s.io/v1":            {"priorityclasses"},
		"storage.k8s.io/v1":               {"storageclasses", "csinodes", "volumeattachments"},
	}
}

// without are expressions of sed that take an entry, which is one of the tables', out of a flag. What only starts like it stays: -job is no
// -job-controller.
func without(flag, entry string) string {
	escaped := strings.ReplaceAll(entry, "/", `\/`)
	return fmt.Sprintf(`-e 's/,%s\(,\|$\)/\1/' -e 's/=%[1]s,/=/' -e '/--%s=%[1]s$/d'`, escaped, flag)
}

// switchedOff are the entries of --runtime-config by which something of the table is off, with what that is. The closest entry counts:
// a version's before those of all versions, and of one that is there twice the last (k8s.io/apiserver pkg/server/resourceconfig).
func switchedOff(value string) map[string][]string {
	set := map[string]string{}
	for word := range strings.SplitSeq(value, ",") {
		key, state, _ := strings.Cut(strings.TrimSpace(word), "=")
		set[strings.TrimSpace(key)] = strings.TrimSpace(state)
	}
	off := func(key string) bool {
		on, err := strconv.ParseBool(set[key])
		return err == nil && !on
	}
	entries := map[string][]string{}
	for version, resources := range apis() {
		key := ""
		for _, k := range []string{version, "api/ga", "api/all"} {
			if _, is := set[k]; is && key == "" {
				key = k
			}
		}
		if off(key) {
			entries[key+"="+set[key]] = append(entries[key+"="+set[key]], version)
			continue
		}
		for _, resource := range resources {
			if k := version + "/" + resource; off(k) {
				entries[k+"="+set[k]] = []string{k}
			}
		}
	}
	return entries
}

func (j *judge) apisOff() []finding.Finding {
	var list []finding.Finding
	told := false
	for _, p := range j.of(APIServer) {
		entries := switchedOff(listed(templates.OwnContainer(&p.Spec, APIServer), "runtime-config"))
		if len(entries) == 0 {
			continue
		}
		told = true
		var what, edit []string
		for _, entry := range slices.Sorted(maps.Keys(entries)) {
			slices.Sort(entries[entry])
			what = append(what, entry+", which switches off "+nodes.Some(entries[entry], 3))
			edit = append(edit, without("runtime-config", entry))
		}
		f := finding.APIOff.New("Node/"+p.Spec.NodeName, "kube-apiserver on "+p.Spec.NodeName+" has --runtime-config "+strings.Join(what, "; "))
		f.Next = "on " + p.Spec.NodeName + ": sed -i " + strings.Join(edit, " ") + " /etc/kubernetes/manifests/kube-apiserver.yaml"
		list = append(list, f)
	}
	if len(j.NotServed) > 0 && !told {
		f := finding.APIOff.New("APIService/"+cmp.Or(j.NotServed[0], "v1"), "the API server answers 404 to lists of "+nodes.Some(j.NotServed, 5)+
			", which every API server of Kubernetes has")
		f.Next = "on each control plane: grep -n -e --runtime-config /etc/kubernetes/manifests/kube-apiserver.yaml"
		list = append(list, f)
	}
	return list
}
