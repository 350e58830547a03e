// Package evaluation finds the status of each Service: addresses to publish, and what the condition says. It is pure: the
// plan, reports of agents and Nodes are passed in.
//
// Start at [Inputs.Statuses]. publish.go says which addresses are published; nodeip.go, ports.go and plausible.go are for level
// NodeIP, where a Service has addresses of Nodes: which Nodes take traffic, whose the ports are, and which addresses of a Node
// count. reports.go sums up the agents' reports, proxy.go the mode of kube-proxy.
//
// Reads: what it is given. Writes: since when an address is not announced, in Inputs.Missing, and when an agent has reported.
// Running it twice: the same inputs give the same statuses.
// It will not: talk to an API server, or read a clock.
package evaluation

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

// AnnounceTime is how long no agent may announce an address before the condition says so. An agent needs about a second to
// probe the network, or to take over, and to report it; on a busy machine several.
const AnnounceTime = 10 * time.Second

// Status is what a pass has found for a Service.
type Status struct {
	// Service is as it was looked at, and after is what it should be.
	Service, After *corev1.Service
	// Complete says that all addresses that it gets are published.
	Complete bool
	// Held says that some of its addresses wait for the write of another object: After is without them.
	Held bool
	// Elsewhere says that another implementation serves it.
	Elsewhere bool
	Problem   *finding.Finding
	// Note is what there is to say beside, and mistyped what the condition says of an annotation.
	Note, Mistyped string
	// Remark is what there is to say of the addresses that it has.
	Remark string
	// Followed says that its address has followed the prefix of a pool.
	Followed string
	// NoEgress says why packets of its pods do not leave with its address, though it asks for it.
	NoEgress string
}

// Inputs is what statuses depend on.
type Inputs struct {
	Now      time.Time
	Plan     *allocator.Plan
	Pools    []*allocator.Pool
	Machines *Machines
	ports    map[types.NamespacedName]*finding.Finding
	Reports  Reports
	// Missing says since when no agent announces it; it is kept from pass to pass.
	Missing map[Awaited]time.Time
	// elsewhere says that another program serves this cluster, and there is no pool.
	elsewhere bool
}

// Awaited is an address that an agent is to announce: one of the Service, or Next, which then replaces it.
type Awaited struct {
	Service types.NamespacedName
	Next    netip.Addr
}

// Statuses evaluates all Services of the plan.
func (e *Inputs) Statuses() map[types.NamespacedName]*Status {
	var onNodes []*allocator.Assignment
	for _, as := range e.Plan.Services {
		if as.NodeIP || e.onNodes(as) {
			onNodes = append(onNodes, as)
		}
		e.elsewhere = e.elsewhere || len(e.Pools) == 0 && e.foreign(as)
	}
	e.ports = e.Machines.Ports(onNodes)
	statuses := map[types.NamespacedName]*Status{}
	for name, as := range e.Plan.Services {
		statuses[name] = e.status(as)
	}
	for awaited := range e.Missing {
		if as := e.Plan.Services[awaited.Service]; as == nil || awaited.Next.IsValid() && awaited.Next != as.Next {
			delete(e.Missing, awaited)
		}
	}
	return statuses
}

// status evaluates one Service.
func (e *Inputs) status(as *allocator.Assignment) *Status {
	st := &Status{Service: as.Service, After: as.Service.DeepCopy(), Problem: as.Problem, Mistyped: mistyped(as.Service), Remark: as.Remark}
	st.Followed = as.Followed
	st.NoEgress = e.noEgress(as)
	allocator.RecordAsked(st.After, e.Plan.Records[as.Service.UID], e.Now)
	asksUs := as.Request.NodeIP || as.Service.Spec.LoadBalancerClass != nil
	if e.elsewhere && !asksUs && len(as.By) == 0 && allocator.Condition(as.Service) == nil {
		st.Elsewhere = true
		return st
	}
	if as.Service.Spec.LoadBalancerClass != nil && !helpers.HasLBFinalizer(as.Service) {
		st.After.Finalizers = append(st.After.Finalizers, helpers.LoadBalancerCleanupFinalizer) // upstream does it for the others
	}
	if as.Reassigned || as.Moot {
		delete(st.After.Annotations, v1alpha1.ReassignAnnotation)
	}
	if as.Moot {
		st.Note = "annotation " + v1alpha1.ReassignAnnotation + " was removed: the Service has no address to replace"
	}
	if as.NodeIP {
		e.nodeIP(as, st)
	} else {
		e.claimed(as, st)
	}
	if st.Problem != nil {
		st.says(metav1.ConditionFalse, st.Problem.Reason, st.Problem.Message+"; "+st.Problem.Do, e.Now)
	}
	return st
}

func (e *Inputs) nodeIP(as *allocator.Assignment, st *Status) {
	if st.Problem == nil {
		st.Problem = e.ports[allocator.NameOf(as.Service)]
	}
	if st.Problem != nil {
		st.publish(nil)
		return
	}
	list, remark, problem := e.Machines.nodeAddresses(as.Service)
	st.publishOnNodes(list)
	st.Complete = len(list) > 0
	if st.Problem = problem; problem != nil {
		return
	}
	st.says(metav1.ConditionTrue, allocator.NodeIPReason, describe(list, remark), e.Now)
}

func (e *Inputs) claimed(as *allocator.Assignment, st *Status) {
	addresses := as.Addresses()
	e.publishClaimed(as, st)
	e.awaitNext(as)
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&st.After.ObjectMeta, v1alpha1.AllocatedAnnotation, Join(addresses))
	}
	if st.Problem != nil || len(addresses) == 0 {
		return
	}
	if e.Machines.Proxy.answers(e.Plan.Claims[addresses[0]].Level) {
		st.Problem = finding.ProxyBinds.Errorf("kube-proxy is in mode ipvs without strictARP: every Node answers ARP for %s", Join(addresses))
		return
	}
	if st.Problem = e.silence(as, st.Complete); st.Problem != nil || !st.Complete || e.waiting(as) {
		e.sayWhere(as, st)
		return
	}
	if st.Problem = e.behind(as); st.Problem != nil {
		return
	}
	if out := e.outOfPool(as); out != "" {
		st.says(metav1.ConditionTrue, allocator.OutOfPoolReason, out+" any more; annotation "+v1alpha1.ReassignAnnotation+
			": \"true\" assigns another one", e.Now)
		return
	}
	announced := Join(addresses) + " at level " + string(e.Plan.Claims[addresses[0]].Level)
	if v1alpha1.WantsEgress(as.Service.Labels) && st.NoEgress == "" {
		announced += ", also for packets from its pods"
	}
	st.says(metav1.ConditionTrue, allocator.AnnouncedReason, announced+e.failingHooks(addresses)+also(st.Remark)+also(as.Follows), e.Now)
}

// sayWhere has the condition of a Service without announced addresses name those that it has, also while it speaks of others that these have
// replaced: claims that are lost are restored by that.
func (e *Inputs) sayWhere(as *allocator.Assignment, st *Status) {
	said, addresses := allocator.Condition(as.Service), as.Addresses()
	named := func(address netip.Addr) bool { return allocator.SaidToBeClaimed(as.Service, address) }
	if st.Problem == nil && st.Complete && said != nil && said.Status == metav1.ConditionFalse && !slices.ContainsFunc(addresses, named) {
		var names []string
		for _, address := range addresses {
			names = append(names, address.String())
		}
		st.Problem = finding.NotAnnounced.Errorf("no agent announces %s yet", strings.Join(names, " and "))
	}
	if out := e.outOfPool(as); out != "" && st.Problem != nil {
		st.Problem = st.Problem.ID.Errorf("%w; %s", st.Problem, out)
	}
}

// also adds to a message what there is to say beside.
func also(text string) string {
	if text == "" {
		return ""
	}
	return "; " + text
}

// failingHooks adds to a message why the provider may send an address to another machine, though it is announced.
func (e *Inputs) failingHooks(addresses []netip.Addr) string {
	text := &strings.Builder{}
	for _, address := range addresses {
		if why := e.Reports.hooks[address]; why != "" {
			text.WriteString("; the hook of AddressPool/" + e.Plan.Claims[address].Pool + " for " + address.String() + " " + why)
		}
	}
	return text.String()
}

// outOfPool names an address of the Service which is in no pool, or not in the one that the Service names. One that another one replaces
// is not named, nor one of a pool whose prefix is not known.
func (e *Inputs) outOfPool(as *allocator.Assignment) string {
	for _, address := range as.Addresses() {
		in := func(p *allocator.Pool) bool {
			unknown := address.Is6() && p.LacksPrefix() != nil && p.Name == e.Plan.Claims[address].Pool
			return (p.Set.Contains(address) || unknown) && (as.Request.Pool == "" || as.Request.Pool == p.Name)
		}
		switch {
		case address.Is6() && as.Next.IsValid():
			continue
		case slices.ContainsFunc(e.Pools, in):
			continue
		case as.Request.Pool == "":
			return address.String() + allocator.OutOfPools
		}
		return address.String() + " is not in AddressPool/" + as.Request.Pool
	}
	return ""
}

// silence says what keeps packets from the addresses, once it has lasted. Published says that all of them are.
func (e *Inputs) silence(as *allocator.Assignment, published bool) *finding.Finding {
	awaited, addresses := Awaited{Service: allocator.NameOf(as.Service)}, as.Addresses()
	for _, address := range addresses {
		if who, conflict := e.Reports.conflicts[address]; conflict && !e.Reports.Announced[address] {
			return finding.AddressConflict.Errorf("%s: %s", address, who)
		}
	}
	for _, address := range addresses {
		if e.Reports.Announced[address] {
			continue
		}
		if published && e.Machines.unserved(as.Service) {
			delete(e.Missing, awaited) // agents have the time again once there is an endpoint
			return finding.NoReadyEndpoint.Errorf("no ready endpoint; externalTrafficPolicy is Local, so no Node announces %s", address)
		}
		if e.Missing[awaited].IsZero() {
			e.Missing[awaited] = e.Now
		}
		if e.Now.Sub(e.Missing[awaited]) < AnnounceTime {
			return nil
		}
		switch silent := len(e.Reports.silent); {
		case silent == 0 && len(e.Reports.Agents) == 0:
			return finding.NotAnnounced.Errorf("no agent announces %s; there is no node agent", address)
		case silent > 0 && len(e.Reports.Agents) == 0:
			return finding.AgentSilent.Errorf("no agent announces %s: no node agent has reported for %s", address, objects.LiveTime)
		case silent > 0:
			muted, most := e.Reports.muted(e.Plan.Claims[address].Level)
			if most {
				return finding.AgentSilent.Errorf("no agent announces %s: %s", address, muted)
			}
			return finding.NotAnnounced.Errorf("no agent announces %s; %s", address, muted)
		}
		return finding.NotAnnounced.Errorf("no agent announces %s; %d node agents report", address, len(e.Reports.Agents))
	}
	delete(e.Missing, awaited)
	return nil
}

// awaitNext notes since when agents can announce the address that is to replace the published one: since its claim was written. The object
// of one that was kept for the Service is older.
func (e *Inputs) awaitNext(as *allocator.Assignment) {
	c, awaited := e.Plan.Claims[as.Next], Awaited{allocator.NameOf(as.Service), as.Next}
	if c == nil {
		return
	}
	written := c.Object != nil
	if written {
		before, ours := allocator.ParseClaim(c.Object)
		written = !ours || before.Released.IsZero()
	}
	switch {
	case !written:
		e.Missing[awaited] = e.Now
	case e.Missing[awaited].IsZero(): // another leader may have written it
		e.Missing[awaited] = c.Object.CreationTimestamp.Time
	}
}

// behind says why the address of the Service under the prefix of its pool does not replace the one that is published, which stays.
func (e *Inputs) behind(as *allocator.Assignment) *finding.Finding {
	c := e.Plan.Claims[as.Next]
	if c == nil || c.Object == nil || e.Reports.Announced[as.Next] {
		return nil
	}
	if who, conflict := e.Reports.conflicts[as.Next]; conflict {
		return finding.AddressConflict.Errorf("%s: %s; %s", as.Next, who, as.Follows)
	}
	if e.Now.Sub(e.Missing[Awaited{allocator.NameOf(as.Service), as.Next}]) < AnnounceTime {
		return nil
	}
	return finding.NotAnnounced.Errorf("no agent announces %s; %s", as.Next, as.Follows)
}

// waiting says that an address is not announced, and that it is too early to say so.
func (e *Inputs) waiting(as *allocator.Assignment) bool {
	return !e.Missing[Awaited{Service: allocator.NameOf(as.Service)}].IsZero()
}

func (st *Status) says(status metav1.ConditionStatus, reason, message string, now time.Time) {
	for _, text := range []string{st.Mistyped, st.NoEgress} {
		if text != "" {
			message += "; " + text
		}
	}
	meta.SetStatusCondition(&st.After.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LoadBalancerReady, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now),
	})
}

// foreign reports whether another program has served the Service: it has addresses that are in no pool and of no Node, and
// we have said nothing about it.
func (e *Inputs) foreign(as *allocator.Assignment) bool {
	return as.Service.Spec.LoadBalancerClass == nil && allocator.Condition(as.Service) == nil &&
		slices.ContainsFunc(allocator.Earlier(as.Service, true), func(address netip.Addr) bool { return !e.Machines.have(address) })
}

// Join lists addresses as annotations and messages have them.
func Join(list []netip.Addr) string {
	var texts []string
	for _, address := range list {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ",")
}
