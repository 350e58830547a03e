package failover

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// pod is one that is an endpoint. Whoever may write EndpointSlices says so of pods in their namespace: a UID that is
// not the pod's is refused, and one namespace's say hides no other's.
type pod struct {
	types.NamespacedName

	uid types.UID
}

// endpoints are the pods of Services on machines that are gone, by Node, and the Services that have others.
type endpoints struct {
	pods map[string]map[pod][]types.NamespacedName
	// elsewhere are the Services with a ready endpoint on a machine that answers.
	elsewhere map[types.NamespacedName]bool
}

// readEndpoints finds what serves on the Nodes that are gone, and who has endpoints on those that are there.
func readEndpoints(slices []*discoveryv1.EndpointSlice, gone []*corev1.Node, there map[string]bool) *endpoints {
	e := &endpoints{pods: map[string]map[pod][]types.NamespacedName{}, elsewhere: map[types.NamespacedName]bool{}}
	for _, node := range gone {
		e.pods[node.Name] = map[pod][]types.NamespacedName{}
	}
	for _, slice := range slices {
		service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		for i := range slice.Endpoints {
			e.add(service, &slice.Endpoints[i], there)
		}
	}
	return e
}

func (e *endpoints) add(service types.NamespacedName, endpoint *discoveryv1.Endpoint, there map[string]bool) {
	conditions := endpoint.Conditions
	ready := conditions.Ready == nil || *conditions.Ready
	serving := conditions.Serving != nil && *conditions.Serving
	if endpoint.NodeName == nil || !ready && !serving {
		return
	}
	if ready && there[*endpoint.NodeName] {
		e.elsewhere[service] = true
	}
	pods, ref := e.pods[*endpoint.NodeName], endpoint.TargetRef
	if pods == nil || ref == nil || ref.Kind != "Pod" || ref.UID == "" ||
		len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return
	}
	p := pod{types.NamespacedName{Namespace: service.Namespace, Name: ref.Name}, ref.UID}
	pods[p] = append(pods[p], service)
}

// dispensable are the pods on a Node without which each of their Services has an endpoint on a machine that answers,
// and how many others there are.
func (e *endpoints) dispensable(node string) (pods []pod, others int) {
	for p, services := range e.pods[node] {
		left := true
		for _, service := range services {
			left = left && e.elsewhere[service]
		}
		if left {
			pods = append(pods, p)
		} else {
			others++
		}
	}
	return pods, others
}
