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
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// onprem is the provider that serves load balancers by itself: ccmadm lb knows more of them.
const onprem = "onprem"

// balancers finds Services that have waited too long.
func balancers(v *view) []finding.Finding {
	var list []finding.Finding
	served := slices.ContainsFunc(v.managers, func(m manager) bool { return m.balances() })
	for i := range v.Services {
		svc := &v.Services[i]
		if !v.waitsForBalancer(svc) {
			continue
		}
		name, class := svc.Namespace+"/"+svc.Name, svc.Spec.LoadBalancerClass
		foreign := class != nil && *class != v1alpha1.LoadBalancerClass
		f := finding.BalancerPending.New("Service/"+name, "it has had no address for more than five minutes")
		f.Next = "kubectl -n " + svc.Namespace + " describe service " + svc.Name
		said := v.saidOf(svc)
		switch {
		case foreign:
			f.Severity = finding.SeverityNote
			f.Message += ", and waits for the program that serves loadBalancerClass " + *class
		case said == "" && class == nil && v.Provider != onprem && len(v.managers) > 0 && !served: // who speaks serves it
			f.Message += ", and no cloud-controller-manager here serves load balancers"
			f.Do = "if another program is to serve them, such as MetalLB or kube-vip, correct what its log says; else install one, or switch " +
				"on the service controller of the cloud-controller-manager"
		}
		f.Message += said
		if foreign {
			list = append(list, f)
			continue
		}
		if v.Provider == onprem {
			f.Next = "ccmadm lb why " + name
			if meta.IsStatusConditionFalse(svc.Status.Conditions, v1alpha1.LoadBalancerReady) {
				continue // refusedBalancers says why
			}
		} else if v.allExcluded() && (served || v.withoutNodes(svc)) { // other programs give addresses whatever labels say
			f = finding.NoBackend.New("Service/"+name, "all "+strconv.Itoa(len(v.Nodes))+" Nodes have label "+v1alpha1.ExcludeLabel+said)
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

// saidOf is what was said last of a Service that waits, by who serves it: in an Event, in a condition as Cilium's, or in a manager's
// log. The provider onprem's condition stands elsewhere.
func (v *view) saidOf(svc *corev1.Service) string {
	said := nodes.Warned(v.Events, v.Taken, "Service", svc)
	for _, c := range svc.Status.Conditions {
		if said == "" && c.Status == metav1.ConditionFalse && c.Type != v1alpha1.LoadBalancerReady {
			said = "; its condition " + c.Type + " is False: " + nodes.Shorten(c.Reason+": "+c.Message)
		}
	}
	for i := range v.managers {
		for _, p := range v.managers[i].pods {
			if line := nodes.LastError(v.Logs[p.Name], svc.Namespace+"/"+svc.Name); said == "" && line != "" {
				said = "; the cloud-controller-manager logs: " + line
			}
		}
	}
	return said
}

// allExcluded follows upstream: a label of value false does not exclude.
func (v *view) allExcluded() bool {
	return len(v.Nodes) > 0 && !slices.ContainsFunc(v.Nodes, func(n corev1.Node) bool {
		value, labelled := n.Labels[v1alpha1.ExcludeLabel]
		off, err := strconv.ParseBool(value)
		return !labelled || err == nil && !off
	})
}

// withoutNodes tells whether a service controller has found no Node for a Service lately (k8s.io/cloud-provider controllers/service).
func (v *view) withoutNodes(svc *corev1.Service) bool {
	return slices.ContainsFunc(v.Events, func(e corev1.Event) bool {
		return e.Reason == "UnAvailableLoadBalancer" && nodes.IsRecent(&e, v.Taken, "Service", svc)
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
			"it is being deleted, and its finalizer "+v1alpha1.LoadBalancerFinalizer+" stays"+v.saidOf(svc))
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
