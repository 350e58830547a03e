package components

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// alike are flags that kubeadm writes from the cluster's configuration: control planes that differ in one of them answer the
// same question in two ways. All others may differ by machine (addresses, resources, log levels), or while an upgrade goes on.
func alike() []string {
	return []string{
		"service-cluster-ip-range", "cluster-cidr", "service-account-issuer", "allocate-node-cidrs", "cloud-provider", "cluster-name",
		"authorization-mode", "service-node-port-range", "encryption-provider-config",
	}
}

// differences are flags that one control plane has other than most.
func (j *judge) differences() []finding.Finding {
	var list []finding.Finding
	for _, component := range []string{APIServer, ControllerManager} {
		pods := slices.DeleteFunc(slices.Clone(j.Static), func(p corev1.Pod) bool {
			return p.Labels[v1alpha1.ComponentLabel] != component || len(p.Spec.Containers) == 0
		})
		var own []finding.Finding
		for _, flag := range alike() {
			own = append(own, difference(component, flag, pods)...)
		}
		if len(own) == 0 {
			own = j.fromConfiguration(component, pods)
		}
		list = append(list, own...)
	}
	return list
}

// fromConfiguration are networks that all control planes have other than kubeadm's configuration: the next upgrade writes those
// of the configuration. kubeadm gives the controller manager both, or none where there is no network of pods
// (kubernetes cmd/kubeadm/app/phases/controlplane, getControllerManagerCommand).
func (j *judge) fromConfiguration(component string, pods []corev1.Pod) []finding.Finding {
	wanted := map[string]string{"service-cluster-ip-range": j.ServiceSubnet}
	if component == ControllerManager {
		if j.PodSubnet == "" {
			return nil
		}
		wanted["cluster-cidr"] = j.PodSubnet
	}
	var list []finding.Finding
	for _, flag := range slices.Sorted(maps.Keys(wanted)) {
		if len(pods) == 0 || wanted[flag] == "" {
			continue
		}
		if value := argument(templates.OwnContainer(&pods[0].Spec, component), flag); value != wanted[flag] {
			node := pods[0].Spec.NodeName
			f := finding.ComponentsDiffer.New("Node/"+node, fmt.Sprintf("%s on %s has --%s %s, and kubeadm's ClusterConfiguration %s",
				component, node, flag, orNone(value), finding.Clean(wanted[flag])))
			f.Next = fmt.Sprintf("on %s: grep -n -e --%s /etc/kubernetes/manifests/%s.yaml", node, flag, component)
			list = append(list, f)
		}
	}
	return list
}

func difference(component, flag string, pods []corev1.Pod) []finding.Finding {
	on := map[string][]string{} // Nodes by value
	for i := range pods {
		value := argument(templates.OwnContainer(&pods[i].Spec, component), flag)
		on[value] = append(on[value], pods[i].Spec.NodeName)
	}
	if len(on) < 2 {
		return nil
	}
	most := "" // the value of most control planes; of two that are as many, the lesser text
	for value, names := range on {
		if len(names) > len(on[most]) || len(names) == len(on[most]) && value < most {
			most = value
		}
	}
	var list []finding.Finding
	for value, names := range on {
		if value == most {
			continue
		}
		slices.Sort(names)
		slices.Sort(on[most])
		f := finding.ComponentsDiffer.New("Node/"+names[0], fmt.Sprintf("%s on %s has --%s %s, and on %s %s", component,
			nodes.Some(names, 3), flag, orNone(value), nodes.Some(on[most], 3), orNone(most)))
		f.Next = fmt.Sprintf("on %s: grep -n -e --%s /etc/kubernetes/manifests/%s.yaml", names[0], flag, component)
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b finding.Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return finding.Clean(value)
}

// argument is the value of a flag; the last one counts.
func argument(c *corev1.Container, flag string) string {
	a, _ := templates.LookupArg(templates.ReadArgs(*c), flag)
	return a.Value
}

// listed is the value of a flag that adds to the one before where it is given again, as --controllers (pflag's StringSlice) and
// --runtime-config (k8s.io/component-base cli/flag ConfigurationMap) do.
func listed(c *corev1.Container, flag string) string {
	var all []string
	for _, a := range templates.ReadArgs(*c) {
		if a.Name == flag {
			all = append(all, a.Value)
		}
	}
	return strings.Join(all, ",")
}
