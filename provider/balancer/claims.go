package balancer

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

// claim is what an IPAddress object says: that Services have an address, or had it.
type claim struct {
	address netip.Addr
	pool    string
	level   v1alpha1.Level
	// parent is who the object was made for, and cannot change. It may not be among the owners any more.
	parent types.NamespacedName
	// owners are those who have the address, or had it until released.
	owners   []types.NamespacedName
	probed   time.Time
	released time.Time
	// object is nil for a claim that is not written yet.
	object *networkingv1.IPAddress
}

// parseClaim returns false for what is none of ours.
func parseClaim(object *networkingv1.IPAddress) (*claim, bool) {
	address, err := netip.ParseAddr(object.Name)
	parent := object.Spec.ParentRef
	if err != nil || parent == nil || object.Labels[networkingv1.LabelManagedBy] != v1alpha1.ClaimManager {
		return nil, false
	}
	said := object.Annotations
	c := &claim{
		address: address, pool: said[v1alpha1.ClaimPoolAnnotation], level: v1alpha1.Level(said[v1alpha1.ClaimLevelAnnotation]),
		parent: types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}, object: object,
		probed: parseTime(said[v1alpha1.ClaimProbedAnnotation]), released: parseTime(said[v1alpha1.ClaimReleasedAnnotation]),
	}
	if said[v1alpha1.ClaimParentLeftAnnotation] == "" {
		c.owners = append(c.owners, c.parent)
	}
	for text := range strings.SplitSeq(said[v1alpha1.ClaimSharersAnnotation], ",") {
		if namespace, name, ok := strings.Cut(strings.TrimSpace(text), "/"); ok {
			c.owners = append(c.owners, types.NamespacedName{Namespace: namespace, Name: name})
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

// live says that somebody has the address.
func (c *claim) live() bool { return c.released.IsZero() && len(c.owners) > 0 }

func (c *claim) has(owner types.NamespacedName) bool { return slices.Contains(c.owners, owner) }

// copied may be changed.
func (c *claim) copied() *claim {
	d := *c
	d.owners = slices.Clone(c.owners)
	return &d
}

// render returns the object that says so: the one that is there with other annotations, or a new one.
func (c *claim) render() *networkingv1.IPAddress {
	object := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:   c.address.String(),
			Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager, networkingv1.LabelIPAddressFamily: string(familyName(c.address.Is6()))},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: c.parent.Namespace, Name: c.parent.Name,
		}},
	}
	if c.object != nil {
		object = c.object.DeepCopy()
	}
	var sharers []string
	for _, owner := range c.owners {
		if owner != c.parent {
			sharers = append(sharers, owner.String())
		}
	}
	left := ""
	if !c.has(c.parent) {
		left = "true"
	}
	for key, value := range map[string]string{
		v1alpha1.ClaimPoolAnnotation: c.pool, v1alpha1.ClaimLevelAnnotation: string(c.level),
		v1alpha1.ClaimSharersAnnotation: strings.Join(sharers, ","), v1alpha1.ClaimParentLeftAnnotation: left,
		v1alpha1.ClaimProbedAnnotation: formatTime(c.probed), v1alpha1.ClaimReleasedAnnotation: formatTime(c.released),
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
