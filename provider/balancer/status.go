package balancer

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// announceTime is how long no agent may announce an address before the condition says so. An agent needs about a second to
// probe the network, or to take over, and to report it; on a busy machine several.
const announceTime = 10 * time.Second

// The reasons of the condition when it is True.
const (
	announcedReason = "Announced"
	nodeIPReason    = "NodeIP"
	outOfPoolReason = "OutOfPool"
)

// status is what a pass has found for a Service.
type status struct {
	// service is as it was looked at, and after is what it should be.
	service, after *corev1.Service
	// complete says that all addresses that it gets are published.
	complete bool
	// elsewhere says that another implementation serves it.
	elsewhere bool
	problem   *finding.Finding
	// note is what there is to say beside, and mistyped what the condition says of an annotation.
	note, mistyped string
}

// evaluation is what statuses depend on.
type evaluation struct {
	now      time.Time
	plan     *plan
	pools    []*pool
	machines *machines
	ports    map[types.NamespacedName]*finding.Finding
	reports  reports
	// missing says since when nobody announces an address of the Service; it is kept from pass to pass.
	missing map[types.NamespacedName]time.Time
	// elsewhere says that somebody else serves this cluster, and nobody has made a pool.
	elsewhere bool
}

// statuses evaluates all Services of the plan.
func (e *evaluation) statuses() map[types.NamespacedName]*status {
	var onNodes []*assignment
	for _, as := range e.plan.services {
		if as.nodeIP || e.onNodes(as) {
			onNodes = append(onNodes, as)
		}
		e.elsewhere = e.elsewhere || len(e.pools) == 0 && e.foreign(as)
	}
	e.ports = e.machines.ports(onNodes)
	statuses := map[types.NamespacedName]*status{}
	for name, as := range e.plan.services {
		statuses[name] = e.status(as)
	}
	for name := range e.missing {
		if e.plan.services[name] == nil {
			delete(e.missing, name)
		}
	}
	return statuses
}

// status evaluates one Service.
func (e *evaluation) status(as *assignment) *status {
	st := &status{service: as.service, after: as.service.DeepCopy(), problem: as.problem, mistyped: mistyped(as.service)}
	asksUs := as.request.nodeIP || as.service.Spec.LoadBalancerClass != nil
	if e.elsewhere && !asksUs && len(as.by) == 0 && condition(as.service) == nil {
		st.elsewhere = true
		return st
	}
	if as.service.Spec.LoadBalancerClass != nil && !helpers.HasLBFinalizer(as.service) {
		st.after.Finalizers = append(st.after.Finalizers, helpers.LoadBalancerCleanupFinalizer) // upstream does it for the others
	}
	if as.reassigned || as.moot {
		delete(st.after.Annotations, v1alpha1.ReassignAnnotation)
	}
	if as.moot {
		st.note = "annotation " + v1alpha1.ReassignAnnotation + " is removed: there was no address to give another one for"
	}
	if as.nodeIP {
		e.nodeIP(as, st)
	} else {
		e.claimed(as, st)
	}
	if st.problem != nil {
		st.says(metav1.ConditionFalse, st.problem.Reason, st.problem.Message+"; "+st.problem.Do, e.now)
	}
	return st
}

func (e *evaluation) nodeIP(as *assignment, st *status) {
	if st.problem == nil {
		st.problem = e.ports[nameOf(as.service)]
	}
	if st.problem != nil {
		st.publish(nil)
		return
	}
	list, remark, problem := e.machines.nodeAddresses(as.service)
	st.publishOnNodes(list)
	st.complete = len(list) > 0
	if st.problem = problem; problem != nil {
		return
	}
	st.says(metav1.ConditionTrue, nodeIPReason, describe(list, remark), e.now)
}

func (e *evaluation) claimed(as *assignment, st *status) {
	name, addresses := nameOf(as.service), as.addresses()
	e.publishClaimed(as, st)
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&st.after.ObjectMeta, v1alpha1.AllocatedAnnotation, join(addresses))
	}
	if st.problem != nil || len(addresses) == 0 {
		return
	}
	if e.machines.proxy.answers(e.plan.claims[addresses[0]].level) {
		st.problem = finding.ProxyBinds.Errorf("kube-proxy is in mode ipvs without strictARP: every Node answers ARP for %s", join(addresses))
		return
	}
	if st.problem = e.silence(as, st.complete); st.problem != nil || !st.complete || e.waiting(name) {
		return
	}
	if out := e.outOfPool(as); out != "" {
		st.says(metav1.ConditionTrue, outOfPoolReason, out+" any more; annotation "+v1alpha1.ReassignAnnotation+
			": \"true\" gives the Service another one", e.now)
		return
	}
	st.says(metav1.ConditionTrue, announcedReason, join(addresses)+" at level "+string(e.plan.claims[addresses[0]].level), e.now)
}

// outOfPool names an address of the Service which is in no pool, or not in the one that the Service names.
func (e *evaluation) outOfPool(as *assignment) string {
	for _, address := range as.addresses() {
		in := func(p *pool) bool {
			return p.set.Contains(address) && (as.request.pool == "" || as.request.pool == p.Name)
		}
		switch {
		case slices.ContainsFunc(e.pools, in):
			continue
		case as.request.pool == "":
			return address.String() + " is in no AddressPool"
		}
		return address.String() + " is not in AddressPool/" + as.request.pool
	}
	return ""
}

// silence says what keeps packets from the addresses, once it has lasted. Published says that all of them are.
func (e *evaluation) silence(as *assignment, published bool) *finding.Finding {
	name, addresses := nameOf(as.service), as.addresses()
	for _, address := range addresses {
		if who, conflict := e.reports.conflicts[address]; conflict && !e.reports.announced[address] {
			return finding.AddressConflict.Errorf("%s: %s", address, who)
		}
	}
	for _, address := range addresses {
		if e.reports.announced[address] {
			continue
		}
		if published && e.machines.unserved(as.service) {
			delete(e.missing, name) // agents have the time again once there is an endpoint
			return finding.NoReadyEndpoint.Errorf("no ready endpoint; externalTrafficPolicy is Local, so no Node announces %s", address)
		}
		if e.missing[name].IsZero() {
			e.missing[name] = e.now
		}
		if e.now.Sub(e.missing[name]) < announceTime {
			return nil
		}
		switch silent := len(e.reports.silent); {
		case silent > 0 && len(e.reports.agents) == 0:
			return finding.AgentSilent.Errorf("nobody announces %s: no node agent has reported for %s", address, objects.LiveTime)
		case silent >= len(e.reports.agents):
			return finding.AgentSilent.Errorf("nobody announces %s: %s", address, e.reports.muted(e.plan.claims[address].level))
		case silent > 0:
			return finding.NotAnnounced.Errorf("nobody announces %s; %s", address, e.reports.muted(e.plan.claims[address].level))
		}
		return finding.NotAnnounced.Errorf("nobody announces %s; %d node agents report", address, len(e.reports.agents))
	}
	delete(e.missing, name)
	return nil
}

// waiting says that an address is not announced, and that it is too early to say so.
func (e *evaluation) waiting(name types.NamespacedName) bool { return !e.missing[name].IsZero() }

func (st *status) says(status metav1.ConditionStatus, reason, message string, now time.Time) {
	if st.mistyped != "" {
		message += "; " + st.mistyped
	}
	meta.SetStatusCondition(&st.after.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LoadBalancerReady, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now),
	})
}

func condition(service *corev1.Service) *metav1.Condition {
	return meta.FindStatusCondition(service.Status.Conditions, v1alpha1.LoadBalancerReady)
}

// saidToBeClaimed tells whether the last that we have said of a Service is that it has claimed addresses.
func saidToBeClaimed(service *corev1.Service) bool {
	c := condition(service)
	return c != nil && c.Status == metav1.ConditionTrue && slices.Contains([]string{announcedReason, outOfPoolReason}, c.Reason)
}

// foreign says whether somebody else has served the Service: it has addresses that are in no pool and of no Node, and
// we have said nothing about it.
func (e *evaluation) foreign(as *assignment) bool {
	return as.service.Spec.LoadBalancerClass == nil && condition(as.service) == nil &&
		slices.ContainsFunc(earlier(as.service, true), func(address netip.Addr) bool { return !e.machines.have(address) })
}

func join(list []netip.Addr) string {
	var texts []string
	for _, address := range list {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ",")
}
