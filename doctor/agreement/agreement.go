// Package agreement compares what several places of a cluster state about one setting, and that has to be the same: networks of pods and
// Services, the address of the API server, the domain and the name servers of the cluster, and versions, which may differ by so much only.
//
// Start at [Settings.Take], which takes ConfigMaps as a snapshot reads them, and at [Judge]. subjects.go has the table of settings: who
// states each, and which of them kubeadm goes by. Control planes among each other, and with kubeadm's configuration, are compared in
// package doctor/components.
//
// It reads and writes nothing.
package agreement

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Cluster is all that states something.
type Cluster struct {
	*Settings
	// Endpoint, PodSubnet, ServiceSubnet and Domain are those of kubeadm's ClusterConfiguration. Empty: it does not state them.
	Endpoint, PodSubnet, ServiceSubnet, Domain string
	// DNS is the address in the KubeletConfiguration of the cluster, Resolvers are addresses of Services that resolve names.
	DNS       string
	Resolvers []string
	// Addresses are the ClusterIPs of Services that every cluster depends on, by their object.
	Addresses map[string]string
	Nodes     []corev1.Node
	// Static are the static pods of control planes.
	Static []corev1.Pod
	// PKI is the directory of certificates.
	PKI string
	// CIDRsUnseen says that ServiceCIDRs could not be listed, ServicesUnseen that not all Services were: what is not known may be there.
	CIDRsUnseen, ServicesUnseen bool
}

// statement is what one place says about a setting.
type statement struct {
	place, object, value string
	// elsewhere says that a deviation of it is found in another package.
	elsewhere bool
	// next is a command that gives it a value, which is one of the others'. Nil: there is none.
	next func(value string) string
}

// subject is a setting, with all that states it, kubeadm's configuration first.
type subject struct {
	name    string
	without string
	// agree says that two values are compatible. What cannot be compared is.
	agree      func(a, b string) bool
	statements []statement
}

// Judge finds what disagrees. One finding for each place that says something else than most, or than kubeadm's configuration where as
// many say the one as the other.
func Judge(c Cluster) []finding.Finding {
	if c.Settings == nil {
		return nil
	}
	var list []finding.Finding
	for _, s := range c.subjects() {
		list = append(list, s.judge()...)
	}
	list = append(list, c.nodesOutside()...)
	list = append(list, c.addressesOutside()...)
	list = append(list, c.resolvers()...)
	return merged(append(list, c.versions()...))
}

// merged has one finding for each object.
func merged(list []finding.Finding) []finding.Finding {
	var kept []finding.Finding
	for _, f := range list {
		i := slices.IndexFunc(kept, func(k finding.Finding) bool { return k.Object == f.Object })
		if i < 0 {
			kept = append(kept, f)
			continue
		}
		kept[i].Message += "; " + f.Message
		if kept[i].Next != f.Next {
			kept[i].Next += ", then: " + f.Next
		}
	}
	return kept
}

func (s *subject) judge() []finding.Finding {
	stated := slices.DeleteFunc(slices.Clone(s.statements), func(st statement) bool { return st.value == "" })
	if len(stated) < 2 {
		return nil
	}
	votes := func(st statement) int {
		count := 0
		for _, other := range stated {
			if s.agree(st.value, other.value) {
				count++
			}
		}
		return count
	}
	// of as many, the first: kubeadm's configuration, or what stands closest to it
	most := slices.MaxFunc(stated, func(a, b statement) int { return cmp.Compare(votes(a), votes(b)) })
	var list []finding.Finding
	for _, st := range stated {
		if st.elsewhere || s.agree(st.value, most.value) {
			continue
		}
		f := finding.SettingsDisagree.New(st.object, s.name+": "+st.place+" has "+finding.Clean(st.value)+", and "+most.place+" "+
			finding.Clean(most.value)+": "+s.without)
		if st.next != nil {
			f.Next = st.next(most.value)
		}
		f.Next = cmp.Or(f.Next, "kubectl -n kube-system get configmap kubeadm-config -o yaml")
		list = append(list, f)
	}
	return list
}

func names(list []string) string { return finding.Clean(nodes.Some(list, 3)) }
