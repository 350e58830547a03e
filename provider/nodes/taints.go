package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// taintsOf returns the taints that a Node is to have, and those that it should have and is not given: a NoExecute taint
// evicts pods, and comes with a Node's initialization only. Dropped are taints that its machine had in an earlier
// inventory; nothing on the Node says so, for a kubelet could write that, and have a taint taken away which it may not.
func taintsOf(node *corev1.Node, m *config.Machine, dropped []corev1.Taint) (want, withheld []corev1.Taint) {
	listed := m.AllTaints()
	want = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return !has(listed, t) && (has(dropped, t) || t.Key == v1alpha1.MaintenanceTaint)
	})
	for _, t := range listed {
		at := slices.IndexFunc(want, func(other corev1.Taint) bool { return other.MatchTaint(&t) })
		switch {
		case at >= 0:
			want[at].Value = t.Value
		case t.Effect == corev1.TaintEffectNoExecute && !uninitialized(node):
			withheld = append(withheld, t)
		default:
			want = append(want, t)
		}
	}
	return want, withheld
}

func has(taints []corev1.Taint, t corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(other corev1.Taint) bool { return other.MatchTaint(&t) })
}

// sameTaints compares what an inventory can say of taints; when one was added is the API server's.
func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

func uninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isUninitializedTaint)
}

func isUninitializedTaint(t corev1.Taint) bool {
	return t.Key == cloudproviderapi.TaintExternalCloudProvider
}
