package network

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Balancer is a Service of type LoadBalancer, with what became of it.
type Balancer struct {
	// Service is NAMESPACE/NAME.
	Service string `json:"service"`
	// Addresses are those it has, published or not.
	Addresses []string `json:"addresses,omitempty"`
	// Pool and Level are those of its addresses.
	Pool  string         `json:"pool,omitempty"`
	Level v1alpha1.Level `json:"level,omitempty"`
	// Announcers are the Nodes whose agents say that they announce one of them.
	Announcers []string `json:"announcers,omitempty"`
	// Ready says that its status has an address, and the condition nothing against it.
	Ready bool `json:"ready"`
	// Reason and Message are why it is not, or what there is to say all the same.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the Service was made.
	Since time.Time `json:"since"`
}

// Balancers lists the Services by name.
func (s *Snapshot) Balancers() []Balancer {
	var list []Balancer
	for i := range s.Services {
		list = append(list, s.balancer(&s.Services[i]))
	}
	slices.SortStableFunc(list, func(a, b Balancer) int { return cmp.Compare(a.Service, b.Service) })
	return list
}

func (s *Snapshot) balancer(svc *corev1.Service) Balancer {
	b := Balancer{Service: nameOf(svc), Since: svc.CreationTimestamp.Time}
	claims := s.claims(svc)
	for _, c := range claims {
		b.Addresses = append(b.Addresses, addressOf(c))
		b.Pool = c.Annotations[v1alpha1.ClaimPoolAnnotation]
		b.Level = v1alpha1.Level(c.Annotations[v1alpha1.ClaimLevelAnnotation])
		b.Announcers = append(b.Announcers, s.announcers(addressOf(c))...)
	}
	published := publishedAddresses(svc)
	if len(claims) == 0 {
		b.Addresses = published
		if v1alpha1.Level(svc.Annotations[v1alpha1.LevelAnnotation]) == v1alpha1.LevelNodeIP || len(published) > 0 {
			b.Level = v1alpha1.LevelNodeIP
		}
	}
	slices.Sort(b.Announcers)
	b.Announcers = slices.Compact(b.Announcers)
	b.Ready, b.Reason, b.Message = s.judge(svc, claims, published, b.Announcers)
	return b
}

// judge takes the word of the cloud-controller-manager, which is the condition; without one, what is seen.
func (s *Snapshot) judge(svc *corev1.Service, claims []networkingv1.IPAddress, published, announcers []string,
) (ready bool, reason, message string) {
	if c := conditionOf(svc); c != nil {
		return c.Status == metav1.ConditionTrue, unlessReady(c), finding.Clean(c.Message)
	}
	switch {
	case len(published) > 0:
		return true, "", ""
	case svc.Spec.LoadBalancerClass != nil && *svc.Spec.LoadBalancerClass != v1alpha1.LoadBalancerClass:
		class := finding.Clean(*svc.Spec.LoadBalancerClass)
		return false, "ForeignClass", "loadBalancerClass " + class + " is served by another program"
	case len(claims) > 0 && len(announcers) == 0:
		return false, finding.NotAnnounced.Kind().Reason, "it has an address, and no agent announces it"
	case len(claims) > 0:
		return false, "Publishing", "an agent announces the address; the cloud-controller-manager is to publish it"
	default:
		return false, "Waiting", "the cloud-controller-manager has not processed it: `ccmadm status` shows whether there is a leader"
	}
}

func unlessReady(c *metav1.Condition) string {
	if c.Status == metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

func conditionOf(svc *corev1.Service) *metav1.Condition {
	return meta.FindStatusCondition(svc.Status.Conditions, v1alpha1.LoadBalancerReady)
}

func publishedAddresses(svc *corev1.Service) []string {
	var list []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		list = append(list, finding.Clean(cmp.Or(ingress.IP, ingress.Hostname)))
	}
	return list
}

// claims are the addresses that are the Service's, its own first, and not only kept for it.
func (s *Snapshot) claims(svc *corev1.Service) []networkingv1.IPAddress {
	var own, shared []networkingv1.IPAddress
	for _, c := range s.Claims {
		switch place := slices.Index(ownersOf(c), nameOf(svc)); {
		case c.Annotations[v1alpha1.ClaimReleasedAnnotation] != "":
		case place == 0:
			own = append(own, c)
		case place > 0:
			shared = append(shared, c)
		}
	}
	return append(own, shared...)
}

// ownersOf are the Services that have a claim's address, as NAMESPACE/NAME, in the order in which they came to it.
func ownersOf(c networkingv1.IPAddress) []string {
	var list []string
	if parent := c.Spec.ParentRef; parent != nil && c.Annotations[v1alpha1.ClaimParentLeftAnnotation] == "" {
		list = append(list, parent.Namespace+"/"+parent.Name)
	}
	if text := c.Annotations[v1alpha1.ClaimSharersAnnotation]; text != "" {
		list = append(list, strings.Split(text, ",")...)
	}
	return list
}

// announcers are the Nodes whose live agents announce an address. At an elected level that is one: of several reports the
// newest counts, since an agent that gives an address away reports it at once, and a dead one never does.
func (s *Snapshot) announcers(address string) []string {
	var list []string
	var newest *v1alpha1.NodeAgent
	for i := range s.Agents {
		a := &s.Agents[i]
		said := announces(a, address)
		switch {
		case said == nil || !s.live(a):
		case !said.Level.Elected():
			list = append(list, a.Name)
		case newest == nil || newest.Status.RenewTime.Before(&a.Status.RenewTime):
			newest = a
		}
	}
	if newest != nil {
		list = append(list, newest.Name)
	}
	return list
}

func announces(a *v1alpha1.NodeAgent, address string) *v1alpha1.Announcement {
	for i := range a.Status.Announcements {
		if same(a.Status.Announcements[i].Address, address) {
			return &a.Status.Announcements[i]
		}
	}
	return nil
}

func nameOf(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// PoolReady is the condition of a pool, or nil where no manager has looked at it yet.
func PoolReady(p *v1alpha1.AddressPool) *metav1.Condition {
	return meta.FindStatusCondition(p.Status.Conditions, "Ready")
}
