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

// outcome is what becomes of a Service.
type outcome struct {
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

// judge is what outcomes depend on.
type judge struct {
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

// outcomes say what all Services of the plan get now.
func (j *judge) outcomes() map[types.NamespacedName]*outcome {
	var onNodes []*assignment
	for _, as := range j.plan.services {
		if as.nodeIP || j.onNodes(as) {
			onNodes = append(onNodes, as)
		}
		j.elsewhere = j.elsewhere || len(j.pools) == 0 && j.foreign(as)
	}
	j.ports = j.machines.ports(onNodes)
	outcomes := map[types.NamespacedName]*outcome{}
	for name, as := range j.plan.services {
		outcomes[name] = j.outcome(as)
	}
	for name := range j.missing {
		if j.plan.services[name] == nil {
			delete(j.missing, name)
		}
	}
	return outcomes
}

// outcome says what the Service gets now.
func (j *judge) outcome(as *assignment) *outcome {
	o := &outcome{service: as.service, after: as.service.DeepCopy(), problem: as.problem, mistyped: mistyped(as.service)}
	asksUs := as.wish.nodeIP || as.service.Spec.LoadBalancerClass != nil
	if j.elsewhere && !asksUs && len(as.by) == 0 && condition(as.service) == nil {
		o.elsewhere = true
		return o
	}
	if as.service.Spec.LoadBalancerClass != nil && !helpers.HasLBFinalizer(as.service) {
		o.after.Finalizers = append(o.after.Finalizers, helpers.LoadBalancerCleanupFinalizer) // upstream does it for the others
	}
	if as.reassigned || as.moot {
		delete(o.after.Annotations, v1alpha1.ReassignAnnotation)
	}
	if as.moot {
		o.note = "annotation " + v1alpha1.ReassignAnnotation + " is removed: there was no address to give another one for"
	}
	if as.nodeIP {
		j.nodeIP(as, o)
	} else {
		j.claimed(as, o)
	}
	if o.problem != nil {
		o.says(metav1.ConditionFalse, o.problem.Reason, o.problem.Message+"; "+o.problem.Do, j.now)
	}
	return o
}

func (j *judge) nodeIP(as *assignment, o *outcome) {
	if o.problem == nil {
		o.problem = j.ports[nameOf(as.service)]
	}
	if o.problem != nil {
		o.publish(nil)
		return
	}
	list, remark, problem := j.machines.nodeAddresses(as.service)
	o.publishOnNodes(list)
	o.complete = len(list) > 0
	if o.problem = problem; problem != nil {
		return
	}
	o.says(metav1.ConditionTrue, nodeIPReason, describe(list, remark), j.now)
}

func (j *judge) claimed(as *assignment, o *outcome) {
	name, addresses := nameOf(as.service), as.addresses()
	j.publishClaimed(as, o)
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&o.after.ObjectMeta, v1alpha1.AllocatedAnnotation, join(addresses))
	}
	if o.problem != nil || len(addresses) == 0 {
		return
	}
	if j.machines.proxy.answers(j.plan.claims[addresses[0]].level) {
		o.problem = finding.ProxyBinds.Errorf("kube-proxy is in mode ipvs without strictARP: every Node answers ARP for %s", join(addresses))
		return
	}
	if o.problem = j.silence(as, o.complete); o.problem != nil || !o.complete || j.waiting(name) {
		return
	}
	if out := j.outOfPool(as); out != "" {
		o.says(metav1.ConditionTrue, outOfPoolReason, out+" any more; annotation "+v1alpha1.ReassignAnnotation+
			": \"true\" gives the Service another one", j.now)
		return
	}
	o.says(metav1.ConditionTrue, announcedReason, join(addresses)+" at level "+string(j.plan.claims[addresses[0]].level), j.now)
}

// outOfPool names an address of the Service which is in no pool, or not in the one that the Service names.
func (j *judge) outOfPool(as *assignment) string {
	for _, address := range as.addresses() {
		in := func(p *pool) bool { return p.set.Contains(address) && (as.wish.pool == "" || as.wish.pool == p.Name) }
		switch {
		case slices.ContainsFunc(j.pools, in):
			continue
		case as.wish.pool == "":
			return address.String() + " is in no AddressPool"
		}
		return address.String() + " is not in AddressPool/" + as.wish.pool
	}
	return ""
}

// silence says what keeps packets from the addresses, once it has lasted. Published says that all of them are.
func (j *judge) silence(as *assignment, published bool) *finding.Finding {
	name, addresses := nameOf(as.service), as.addresses()
	for _, address := range addresses {
		if who, conflict := j.reports.conflicts[address]; conflict && !j.reports.announced[address] {
			return finding.AddressConflict.Errorf("%s: %s", address, who)
		}
	}
	for _, address := range addresses {
		if j.reports.announced[address] {
			continue
		}
		if published && j.machines.unserved(as.service) {
			delete(j.missing, name) // agents have the time again once there is an endpoint
			return finding.NoReadyEndpoint.Errorf("no ready endpoint; externalTrafficPolicy is Local, so no Node announces %s", address)
		}
		if j.missing[name].IsZero() {
			j.missing[name] = j.now
		}
		if j.now.Sub(j.missing[name]) < announceTime {
			return nil
		}
		switch silent := len(j.reports.silent); {
		case silent > 0 && len(j.reports.agents) == 0:
			return finding.AgentSilent.Errorf("nobody announces %s: no node agent has reported for %s", address, objects.LiveTime)
		case silent >= len(j.reports.agents):
			return finding.AgentSilent.Errorf("nobody announces %s: %s", address, j.reports.muted(j.plan.claims[address].level))
		case silent > 0:
			return finding.NotAnnounced.Errorf("nobody announces %s; %s", address, j.reports.muted(j.plan.claims[address].level))
		}
		return finding.NotAnnounced.Errorf("nobody announces %s; %d node agents report", address, len(j.reports.agents))
	}
	delete(j.missing, name)
	return nil
}

// waiting says that an address is not announced, and that it is too early to say so.
func (j *judge) waiting(name types.NamespacedName) bool { return !j.missing[name].IsZero() }

func (o *outcome) says(status metav1.ConditionStatus, reason, message string, now time.Time) {
	if o.mistyped != "" {
		message += "; " + o.mistyped
	}
	meta.SetStatusCondition(&o.after.Status.Conditions, metav1.Condition{
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
func (j *judge) foreign(as *assignment) bool {
	return as.service.Spec.LoadBalancerClass == nil && condition(as.service) == nil &&
		slices.ContainsFunc(earlier(as.service, true), func(address netip.Addr) bool { return !j.machines.have(address) })
}

func join(list []netip.Addr) string {
	var texts []string
	for _, address := range list {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ",")
}
