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
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// announceTime is how long no agent may announce an address before the condition says so. An agent needs about a second to
// probe the network, or to take over, and to report it; on a busy machine several.
const announceTime = 10 * time.Second

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
	plan     *allocator.Plan
	pools    []*allocator.Pool
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
	var onNodes []*allocator.Assignment
	for _, as := range e.plan.Services {
		if as.NodeIP || e.onNodes(as) {
			onNodes = append(onNodes, as)
		}
		e.elsewhere = e.elsewhere || len(e.pools) == 0 && e.foreign(as)
	}
	e.ports = e.machines.ports(onNodes)
	statuses := map[types.NamespacedName]*status{}
	for name, as := range e.plan.Services {
		statuses[name] = e.status(as)
	}
	for name := range e.missing {
		if e.plan.Services[name] == nil {
			delete(e.missing, name)
		}
	}
	return statuses
}

// status evaluates one Service.
func (e *evaluation) status(as *allocator.Assignment) *status {
	st := &status{service: as.Service, after: as.Service.DeepCopy(), problem: as.Problem, mistyped: mistyped(as.Service)}
	asksUs := as.Request.NodeIP || as.Service.Spec.LoadBalancerClass != nil
	if e.elsewhere && !asksUs && len(as.By) == 0 && allocator.Condition(as.Service) == nil {
		st.elsewhere = true
		return st
	}
	if as.Service.Spec.LoadBalancerClass != nil && !helpers.HasLBFinalizer(as.Service) {
		st.after.Finalizers = append(st.after.Finalizers, helpers.LoadBalancerCleanupFinalizer) // upstream does it for the others
	}
	if as.Reassigned || as.Moot {
		delete(st.after.Annotations, v1alpha1.ReassignAnnotation)
	}
	if as.Moot {
		st.note = "annotation " + v1alpha1.ReassignAnnotation + " is removed: there was no address to give another one for"
	}
	if as.NodeIP {
		e.nodeIP(as, st)
	} else {
		e.claimed(as, st)
	}
	if st.problem != nil {
		st.says(metav1.ConditionFalse, st.problem.Reason, st.problem.Message+"; "+st.problem.Do, e.now)
	}
	return st
}

func (e *evaluation) nodeIP(as *allocator.Assignment, st *status) {
	if st.problem == nil {
		st.problem = e.ports[allocator.NameOf(as.Service)]
	}
	if st.problem != nil {
		st.publish(nil)
		return
	}
	list, remark, problem := e.machines.nodeAddresses(as.Service)
	st.publishOnNodes(list)
	st.complete = len(list) > 0
	if st.problem = problem; problem != nil {
		return
	}
	st.says(metav1.ConditionTrue, allocator.NodeIPReason, describe(list, remark), e.now)
}

func (e *evaluation) claimed(as *allocator.Assignment, st *status) {
	name, addresses := allocator.NameOf(as.Service), as.Addresses()
	e.publishClaimed(as, st)
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&st.after.ObjectMeta, v1alpha1.AllocatedAnnotation, join(addresses))
	}
	if st.problem != nil || len(addresses) == 0 {
		return
	}
	if e.machines.proxy.answers(e.plan.Claims[addresses[0]].Level) {
		st.problem = finding.ProxyBinds.Errorf("kube-proxy is in mode ipvs without strictARP: every Node answers ARP for %s", join(addresses))
		return
	}
	if st.problem = e.silence(as, st.complete); st.problem != nil || !st.complete || e.waiting(name) {
		return
	}
	if out := e.outOfPool(as); out != "" {
		st.says(metav1.ConditionTrue, allocator.OutOfPoolReason, out+" any more; annotation "+v1alpha1.ReassignAnnotation+
			": \"true\" gives the Service another one", e.now)
		return
	}
	st.says(metav1.ConditionTrue, allocator.AnnouncedReason, join(addresses)+" at level "+string(e.plan.Claims[addresses[0]].Level), e.now)
}

// outOfPool names an address of the Service which is in no pool, or not in the one that the Service names.
func (e *evaluation) outOfPool(as *allocator.Assignment) string {
	for _, address := range as.Addresses() {
		in := func(p *allocator.Pool) bool {
			return p.Set.Contains(address) && (as.Request.Pool == "" || as.Request.Pool == p.Name)
		}
		switch {
		case slices.ContainsFunc(e.pools, in):
			continue
		case as.Request.Pool == "":
			return address.String() + " is in no AddressPool"
		}
		return address.String() + " is not in AddressPool/" + as.Request.Pool
	}
	return ""
}

// silence says what keeps packets from the addresses, once it has lasted. Published says that all of them are.
func (e *evaluation) silence(as *allocator.Assignment, published bool) *finding.Finding {
	name, addresses := allocator.NameOf(as.Service), as.Addresses()
	for _, address := range addresses {
		if who, conflict := e.reports.conflicts[address]; conflict && !e.reports.announced[address] {
			return finding.AddressConflict.Errorf("%s: %s", address, who)
		}
	}
	for _, address := range addresses {
		if e.reports.announced[address] {
			continue
		}
		if published && e.machines.unserved(as.Service) {
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
			return finding.AgentSilent.Errorf("nobody announces %s: %s", address, e.reports.muted(e.plan.Claims[address].Level))
		case silent > 0:
			return finding.NotAnnounced.Errorf("nobody announces %s; %s", address, e.reports.muted(e.plan.Claims[address].Level))
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

// foreign says whether somebody else has served the Service: it has addresses that are in no pool and of no Node, and
// we have said nothing about it.
func (e *evaluation) foreign(as *allocator.Assignment) bool {
	return as.Service.Spec.LoadBalancerClass == nil && allocator.Condition(as.Service) == nil &&
		slices.ContainsFunc(allocator.Earlier(as.Service, true), func(address netip.Addr) bool { return !e.machines.have(address) })
}

func join(list []netip.Addr) string {
	var texts []string
	for _, address := range list {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ",")
}
