package diagnosis

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// patience is for how long a Service may wait for its load balancer.
const patience = 5 * time.Minute

// onprem is the provider that serves load balancers by itself: ccmadm lb knows more of them.
const onprem = "onprem"

// balancers finds Services that have waited too long.
func balancers(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.Services {
		svc := &v.Services[i]
		if !v.waitsForBalancer(svc) {
			continue
		}
		name := svc.Namespace + "/" + svc.Name
		f := finding.BalancerPending.New("Service/"+name, "it has had no address for more than five minutes")
		f.Next = "kubectl -n " + svc.Namespace + " describe service " + svc.Name
		if v.Provider == onprem {
			f.Next = "ccmadm lb why " + name
			if meta.IsStatusConditionFalse(svc.Status.Conditions, v1alpha1.LoadBalancerReady) {
				continue // refusedBalancers says why
			}
		} else if v.allExcluded() {
			f = finding.NoBackend.New("Service/"+name, "all "+strconv.Itoa(len(v.Nodes))+" Nodes have label "+v1alpha1.ExcludeLabel)
			f.Next = "kubectl label nodes --all " + v1alpha1.ExcludeLabel + "-"
		}
		list = append(list, f)
	}
	return list
}

// refusedBalancers are Services of which the provider onprem has said why they get no address.
func refusedBalancers(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.Services {
		svc := &v.Services[i]
		c := meta.FindStatusCondition(svc.Status.Conditions, v1alpha1.LoadBalancerReady)
		if c == nil || c.Status != metav1.ConditionFalse || svc.Spec.Type != corev1.ServiceTypeLoadBalancer ||
			svc.DeletionTimestamp != nil {
			continue
		}
		if kind, known := finding.Lookup(c.Reason); known {
			name := svc.Namespace + "/" + svc.Name
			f := kind.ID.New("Service/"+name, c.Message)
			f.Next = "ccmadm lb why " + name
			list = append(list, f)
		}
	}
	return list
}

// waitsForBalancer is about Services that the manager serves: of no class, or of ours.
func (v *view) waitsForBalancer(svc *corev1.Service) bool {
	class := svc.Spec.LoadBalancerClass
	ours := class == nil || *class == v1alpha1.LoadBalancerClass
	return ours && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil &&
		len(svc.Status.LoadBalancer.Ingress) == 0 && v.since(svc.CreationTimestamp.Time) > patience
}

// allExcluded follows upstream: a label of value false does not exclude.
func (v *view) allExcluded() bool {
	return len(v.Nodes) > 0 && !slices.ContainsFunc(v.Nodes, func(n corev1.Node) bool {
		value, labelled := n.Labels[v1alpha1.ExcludeLabel]
		off, err := strconv.ParseBool(value)
		return !labelled || err == nil && !off
	})
}

// stuckServices are being deleted, and wait for their finalizer to be removed.
func stuckServices(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.Services {
		svc := &v.Services[i]
		if svc.DeletionTimestamp == nil || !slices.Contains(svc.Finalizers, v1alpha1.LoadBalancerFinalizer) ||
			v.since(svc.DeletionTimestamp.Time) < time.Minute {
			continue
		}
		f := finding.BalancerStuck.New("Service/"+svc.Namespace+"/"+svc.Name,
			"it is being deleted, and its finalizer "+v1alpha1.LoadBalancerFinalizer+" stays")
		f.Next = "kubectl -n " + svc.Namespace + " describe service " + svc.Name
		list = append(list, f)
	}
	return list
}

// notServed are built-in lists to which the API server answers that there is no such resource.
func (s *Snapshot) notServed() []string {
	var list []string
	for _, part := range []string{partNodes, partHeartbeats, partDeployments, partDaemonSets, partValidating, partMutating, partRequests} {
		if n := s.notSeen(part); n != nil && n.Reason == metav1.StatusReasonNotFound {
			list = append(list, part)
		}
	}
	return list
}
