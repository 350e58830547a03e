package allocator

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// LeaseKey is under what the IPAM of a pool has one address for a Service.
type LeaseKey struct {
	Pool string
	UID  types.UID
	IPv6 bool
}

// String is the key as a claim has it, whose address says which family; empty: no IPAM has the address.
func (k LeaseKey) String() string {
	if k.UID == "" {
		return ""
	}
	return k.Pool + "/" + string(k.UID)
}

func texts(keys []LeaseKey) []string {
	var list []string
	for _, k := range keys {
		list = append(list, k.String())
	}
	return list
}

func parseLease(text string, ipv6 bool) LeaseKey {
	pool, uid, ok := strings.Cut(text, "/")
	if !ok || uid == "" {
		return LeaseKey{}
	}
	return LeaseKey{pool, types.UID(uid), ipv6}
}

func compareLeases(a, b LeaseKey) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Family(), b.Family()))
}

// Family is ipv4 or ipv6.
func (k LeaseKey) Family() string { return strings.ToLower(string(FamilyName(k.IPv6))) }

// Lease is what an IPAM has last said of a key.
type Lease struct {
	// Wanted is the address that it was asked for; invalid: any.
	Wanted netip.Addr
	// Address is the one that it gives; invalid: it has given none. What it gave once stays while it cannot be asked.
	Address netip.Addr
	// Refused says that it gives none.
	Refused bool
	// Denied is the last address that it was asked for and did not give, whatever it was asked for since; invalid: none.
	Denied netip.Addr
	// Releasing says that it is asked to release the address, and Released that it has.
	Releasing, Released bool
	// Stale says that a later call for an address that a Service has got no answer: it may have been carried out.
	Stale bool
	// Problem is why it gives none, or why it could not be asked again.
	Problem string
}

// Answers reports whether the lease is an answer to the question for that address; invalid: for any.
func (l Lease) Answers(wanted netip.Addr) bool {
	return l.Wanted == wanted || l.Address.IsValid() && (!wanted.IsValid() || l.Address == wanted)
}

// LeaseCall is what an IPAM is to be asked.
type LeaseCall struct {
	Key LeaseKey
	// Service is for whom; the name is empty where only the UID is left.
	Service types.NamespacedName
	// Release says that the address is free; else it is asked for.
	Release bool
	// Address is the one that the Service has, and wanted the only one that it takes; invalid: none, any.
	Address, Wanted netip.Addr
	// From is under what the IPAM has the address until now, if that is another key.
	From LeaseKey
	// Recorded says that the cluster knows of the key, so that the address is released whatever happens: the call may be made.
	Recorded bool
	// Unfit says that the answer cannot be used.
	Unfit bool
	// kept says that the Service has upstream's finalizer: it is not deleted before the address is released.
	kept bool
}

// AskedOf are the keys for which the status of the Service says that an IPAM may have been asked. Tenants who write Services write no
// status.
func AskedOf(service *corev1.Service) []LeaseKey {
	c := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.AskedCondition)
	if c == nil {
		return nil
	}
	var keys []LeaseKey
	for text := range strings.SplitSeq(c.Message, ",") {
		pool, family, ok := strings.Cut(text, "/")
		if ok {
			keys = append(keys, LeaseKey{pool, service.UID, family == LeaseKey{IPv6: true}.Family()})
		}
	}
	return keys
}

// RecordAsked writes the keys to the status of the Service.
func RecordAsked(service *corev1.Service, keys []LeaseKey, now time.Time) {
	if len(keys) == 0 {
		meta.RemoveStatusCondition(&service.Status.Conditions, v1alpha1.AskedCondition)
		return
	}
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Pool+"/"+k.Family())
	}
	meta.SetStatusCondition(&service.Status.Conditions, metav1.Condition{
		Type: v1alpha1.AskedCondition, Status: metav1.ConditionTrue, Reason: "Asked", Message: strings.Join(texts, ","),
		LastTransitionTime: metav1.NewTime(now),
	})
}
