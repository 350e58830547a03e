package allocator

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Claim is what an IPAddress object says: that Services have an address, or had it.
type Claim struct {
	Address netip.Addr
	Pool    string
	Level   v1alpha1.Level
	// Parent is who the object was made for, and cannot change. It may not be among the owners any more.
	Parent types.NamespacedName
	// Owners are those who have the address, or had it until released, the one first that came to it first.
	Owners   []types.NamespacedName
	Probed   time.Time
	Released time.Time
	// Lease is under what an IPAM has the address, if one may have it.
	Lease LeaseKey
	// NextLease is under what the IPAM is asked to have it instead. Until the answer is known it may have it under either.
	NextLease LeaseKey
	// Object is nil for a claim that is not written yet.
	Object *networkingv1.IPAddress
}

// ParseClaim returns false for what is none of ours.
func ParseClaim(object *networkingv1.IPAddress) (*Claim, bool) {
	address, err := netip.ParseAddr(object.Name)
	parent := object.Spec.ParentRef
	if err != nil || parent == nil || object.Labels[networkingv1.LabelManagedBy] != v1alpha1.ClaimManager {
		return nil, false
	}
	said := object.Annotations
	c := &Claim{
		Address: address, Pool: said[v1alpha1.ClaimPoolAnnotation], Level: v1alpha1.Level(said[v1alpha1.ClaimLevelAnnotation]),
		Parent: types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}, Object: object,
		Probed: parseTime(said[v1alpha1.ClaimProbedAnnotation]), Released: parseTime(said[v1alpha1.ClaimReleasedAnnotation]),
	}
	lease, next, _ := strings.Cut(said[v1alpha1.ClaimLeaseAnnotation], ",")
	c.Lease, c.NextLease = parseLease(lease, address.Is6()), parseLease(next, address.Is6())
	if said[v1alpha1.ClaimParentLeftAnnotation] == "" {
		c.Owners = append(c.Owners, c.Parent)
	}
	for text := range strings.SplitSeq(said[v1alpha1.ClaimSharersAnnotation], ",") {
		if namespace, name, ok := strings.Cut(strings.TrimSpace(text), "/"); ok {
			c.Owners = append(c.Owners, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return c, true
}

// parseTime takes what cannot be read for long ago: somebody has written it.
func parseTime(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0)
	}
	return t
}

// Live says that somebody has the address.
func (c *Claim) Live() bool { return c.Released.IsZero() && len(c.Owners) > 0 }

// Has reports whether the Service is among the owners.
func (c *Claim) Has(owner types.NamespacedName) bool { return slices.Contains(c.Owners, owner) }

// leases are under what an IPAM may have the address.
func (c *Claim) leases() []LeaseKey {
	return slices.DeleteFunc([]LeaseKey{c.Lease, c.NextLease}, func(k LeaseKey) bool { return k.UID == "" })
}

// keptFor is the Service for which an address is kept that was released.
func (c *Claim) keptFor() types.NamespacedName {
	if len(c.Owners) == 0 {
		return c.Parent
	}
	return c.Owners[0]
}

// copied may be changed.
func (c *Claim) copied() *Claim {
	d := *c
	d.Owners = slices.Clone(c.Owners)
	return &d
}

// Render returns the object that says so: the one that is there with other annotations, or a new one.
func (c *Claim) Render() *networkingv1.IPAddress {
	object := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:   c.Address.String(),
			Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager, networkingv1.LabelIPAddressFamily: string(FamilyName(c.Address.Is6()))},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: c.Parent.Namespace, Name: c.Parent.Name,
		}},
	}
	if c.Object != nil {
		object = c.Object.DeepCopy()
	}
	// A parent that has left and comes back is the last: its name may be a stranger's by now.
	var sharers []string
	left, others := "true", c.Owners
	if len(others) > 0 && others[0] == c.Parent {
		left, others = "", others[1:]
	}
	for _, owner := range others {
		sharers = append(sharers, owner.String())
	}
	for key, value := range map[string]string{
		v1alpha1.ClaimPoolAnnotation: c.Pool, v1alpha1.ClaimLevelAnnotation: string(c.Level),
		v1alpha1.ClaimSharersAnnotation: strings.Join(sharers, ","), v1alpha1.ClaimParentLeftAnnotation: left,
		v1alpha1.ClaimLeaseAnnotation:  strings.Join(texts(c.leases()), ","),
		v1alpha1.ClaimProbedAnnotation: formatTime(c.Probed), v1alpha1.ClaimReleasedAnnotation: formatTime(c.Released),
	} {
		if value == "" {
			delete(object.Annotations, key)
		} else {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, key, value)
		}
	}
	return object
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
