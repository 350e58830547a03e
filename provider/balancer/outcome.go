package balancer

import (
	"maps"
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

// announceTime is how long an address may be without anybody who announces it before the condition says so. It is what
// an agent needs to ask the network, or to take over, and to report it.
const announceTime = 3 * time.Second

// The reasons of the condition when it is True.
const (
	announcedReason = "Announced"
	nodeIPReason    = "NodeIP"
	outOfPoolReason = "OutOfPool"
)

// reports are what the agents say, by address.
type reports struct {
	announced map[netip.Addr]bool
	conflicts map[netip.Addr]string
	agents    []*v1alpha1.NodeAgent // that live
	silent    string
}

// readReports leaves out what agents have said that are silent since, and brings the signs of life up to date.
func readReports(agents []*v1alpha1.NodeAgent, signs objects.Signs, now time.Time) reports {
	r := reports{announced: map[netip.Addr]bool{}, conflicts: map[netip.Addr]string{}}
	there := map[string]bool{}
	for _, agent := range agents {
		there[agent.Name] = true
		signs.Take(now, agent)
		if !signs.Live(now, agent.Name) {
			r.silent = agent.Name
			continue
		}
		r.agents = append(r.agents, agent)
		for _, a := range agent.Status.Announcements {
			if address, err := netip.ParseAddr(a.Address); err == nil {
				r.announced[address] = true
			}
		}
		for _, c := range agent.Status.Conflicts {
			if address, err := netip.ParseAddr(c.Address); err == nil {
				r.conflicts[address] = c.MAC + " answers for it, as interface " + c.Interface + " of Node/" + agent.Name + " hears"
			}
		}
	}
	maps.DeleteFunc(signs, func(name string, _ objects.Sign) bool { return !there[name] })
	return r
}

// outcome is what becomes of a Service.
type outcome struct {
	// service is as it was looked at, and after is what it should be.
	service, after *corev1.Service
	// complete says that all addresses that it gets are published.
	complete bool
	// elsewhere says that another implementation serves it.
	elsewhere bool
	problem   *finding.Finding
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

// outcome says what the Service gets now.
func (j *judge) outcome(as *assignment) *outcome {
	o := &outcome{service: as.service, after: as.service.DeepCopy(), problem: as.problem}
	asksUs := as.wish.nodeIP || as.service.Spec.LoadBalancerClass != nil
	if j.elsewhere && !asksUs && len(as.by) == 0 && condition(as.service) == nil {
		o.elsewhere = true
		return o
	}
	if as.service.Spec.LoadBalancerClass != nil && !helpers.HasLBFinalizer(as.service) {
		o.after.Finalizers = append(o.after.Finalizers, helpers.LoadBalancerCleanupFinalizer) // upstream does it for the others
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
	o.publish(list)
	if o.problem = problem; problem != nil {
		return
	}
	o.complete = true
	o.says(metav1.ConditionTrue, nodeIPReason, describe(list, remark), j.now)
}

// claimed publishes addresses which have been announced once, or were published before. Until there is one, the Service
// keeps addresses that it has of Nodes, or from another implementation.
func (j *judge) claimed(as *assignment, o *outcome) {
	name, addresses := nameOf(as.service), as.addresses()
	before := earlier(as.service, true)
	var list []netip.Addr
	for _, address := range addresses {
		if !j.plan.claims[address].probed.IsZero() || slices.Contains(before, address) {
			list = append(list, address)
		}
	}
	o.complete = len(addresses) > 0 && len(list) == len(addresses)
	_, ours := as.service.Annotations[v1alpha1.AllocatedAnnotation]
	if len(list) > 0 || ours && !j.machines.have(before) {
		o.publish(list)
	}
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&o.after.ObjectMeta, v1alpha1.AllocatedAnnotation, join(addresses))
	}
	if as.reassigned {
		delete(o.after.Annotations, v1alpha1.ReassignAnnotation)
	}
	if o.problem != nil || len(addresses) == 0 {
		return
	}
	if o.problem = j.silence(name, addresses); o.problem != nil || !o.complete || j.waiting(name) {
		return
	}
	for _, address := range addresses {
		if !slices.ContainsFunc(j.pools, func(p *pool) bool { return p.set.Contains(address) }) {
			o.says(metav1.ConditionTrue, outOfPoolReason, address.String()+" is in no AddressPool any more; annotation "+
				v1alpha1.ReassignAnnotation+": \"true\" gives the Service another one", j.now)
			return
		}
	}
	o.says(metav1.ConditionTrue, announcedReason, join(addresses)+" at level "+string(j.plan.claims[addresses[0]].level), j.now)
}

// silence says what keeps packets from the addresses, once it has lasted.
func (j *judge) silence(name types.NamespacedName, addresses []netip.Addr) *finding.Finding {
	for _, address := range addresses {
		if who, conflict := j.reports.conflicts[address]; conflict && !j.reports.announced[address] {
			return finding.AddressConflict.Errorf("%s: %s", address, who)
		}
	}
	for _, address := range addresses {
		if j.reports.announced[address] {
			continue
		}
		if j.missing[name].IsZero() {
			j.missing[name] = j.now
		}
		if j.now.Sub(j.missing[name]) < announceTime {
			return nil
		}
		if len(j.reports.agents) == 0 && j.reports.silent != "" {
			return finding.AgentSilent.Errorf("nobody announces %s: no node agent has reported for %s", address, objects.LiveTime)
		}
		return finding.NotAnnounced.Errorf("nobody announces %s; %d node agents report", address, len(j.reports.agents))
	}
	delete(j.missing, name)
	return nil
}

// waiting says that an address is not announced, and that it is too early to say so.
func (j *judge) waiting(name types.NamespacedName) bool { return !j.missing[name].IsZero() }

// publish sets the addresses that kube-proxy and clients see, unless they are the same.
func (o *outcome) publish(list []netip.Addr) {
	var ingress []corev1.LoadBalancerIngress
	for _, address := range list {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: address.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	if !helpers.LoadBalancerStatusEqual(&o.after.Status.LoadBalancer, &corev1.LoadBalancerStatus{Ingress: ingress}) {
		o.after.Status.LoadBalancer.Ingress = ingress
	}
}

func (o *outcome) says(status metav1.ConditionStatus, reason, message string, now time.Time) {
	meta.SetStatusCondition(&o.after.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LoadBalancerReady, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now),
	})
}

func condition(service *corev1.Service) *metav1.Condition {
	return meta.FindStatusCondition(service.Status.Conditions, v1alpha1.LoadBalancerReady)
}

// foreign says whether somebody else has served the Service: it has addresses that are in no pool and of no Node, and
// we have said nothing about it.
func (j *judge) foreign(as *assignment) bool {
	list := earlier(as.service, true)
	return as.service.Spec.LoadBalancerClass == nil && condition(as.service) == nil && len(list) > 0 && !j.machines.have(list)
}

func join(list []netip.Addr) string {
	var texts []string
	for _, address := range list {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ",")
}
