package config

import (
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Validate refuses what the API server would refuse on a Node, and what could make two machines look like one. Defaults
// must have been set.
func (i *Inventory) Validate() field.ErrorList {
	errs := problems(field.NewPath("metadata", "site"), i.Metadata.Site, validation.IsDNS1123Label)
	if i.Metadata.Serial < 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "serial"), i.Metadata.Serial, "must not be negative"))
	}
	errs = append(errs, i.Defaults.validate(field.NewPath("defaults"))...)
	errs = append(errs, i.Policy.validate(field.NewPath("policy"))...)
	for n := range i.Machines {
		errs = append(errs, i.Machines[n].validate(field.NewPath("machines").Index(n))...)
	}
	return append(errs, i.validateUnique()...)
}

func (p Place) validate(path *field.Path) field.ErrorList {
	errs := problems(path.Child("region"), p.Region, validation.IsValidLabelValue)
	errs = append(errs, problems(path.Child("zone"), p.Zone, validation.IsValidLabelValue)...)
	return append(errs, problems(path.Child("instanceType"), p.InstanceType, validation.IsValidLabelValue)...)
}

func (p InventoryPolicy) validate(path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("unknownNodes"), p.UnknownNodes, AdoptUnknown, HoldUnknown)
	errs = append(errs, oneOf(path.Child("deletion"), p.Deletion, DeletionNever, DeletionTombstone, DeletionAbsence)...)
	budget := path.Child("deletionBudget")
	for _, number := range []struct {
		path  *field.Path
		value int64
	}{
		{path.Child("absence", "minSnapshots"), int64(p.Absence.MinSnapshots)},
		{path.Child("absence", "minDuration"), int64(p.Absence.MinDuration.Duration)},
		{budget.Child("max"), int64(p.DeletionBudget.Max)},
		{budget.Child("per"), int64(p.DeletionBudget.Per.Duration)},
		{budget.Child("maxPercent"), int64(p.DeletionBudget.MaxPercent)},
	} {
		if number.value < 0 {
			errs = append(errs, field.Invalid(number.path, number.value, "must not be negative"))
		}
	}
	if p.DeletionBudget.MaxPercent > 100 {
		errs = append(errs, field.Invalid(budget.Child("maxPercent"), p.DeletionBudget.MaxPercent, "must not be above 100"))
	}
	return errs
}

// validateUnique refuses a key, or an address, that two machines have.
func (i *Inventory) validateUnique() field.ErrorList {
	var errs field.ErrorList
	owners := map[string]*Machine{}
	for n := range i.Machines {
		m := &i.Machines[n]
		path := field.NewPath("machines").Index(n)
		keys := m.Keys(path)
		for _, ip := range m.IPs() {
			keys = append(keys, MachineKey{"address", ip, path.Child("addresses")})
		}
		for _, key := range keys {
			other := owners[key.String()]
			if other != nil && (other != m || key.Kind != "address") { // a machine may have one as internal and external
				errs = append(errs, field.Invalid(key.Path, key.Value, "is listed twice: it is that of machine "+other.ID+", too"))
			}
			owners[key.String()] = m
		}
	}
	return errs
}

func (m *Machine) validate(path *field.Path) field.ErrorList {
	errs := problems(path.Child("id"), m.ID, validation.IsDNS1123Subdomain)
	errs = append(errs, oneOf(path.Child("state"), m.State, MachineActive, MachineMaintenance, MachineDecommissioned)...)
	errs = append(errs, oneOf(path.Child("power", "state"), m.Power.State, PowerOn, PowerOff, PowerUnknown)...)
	errs = append(errs, m.Place.validate(path)...)
	errs = append(errs, problems(path.Child("rack"), m.Rack, validation.IsValidLabelValue)...)
	errs = append(errs, m.Match.validate(path.Child("match"))...)
	if m.Hostname != "" {
		errs = append(errs, problems(path.Child("hostname"), strings.ToLower(m.Hostname), validation.IsDNS1123Subdomain)...)
	}
	for n, address := range m.Addresses {
		errs = append(errs, validateAddress(path.Child("addresses").Index(n), address)...)
	}
	errs = append(errs, validateTaints(path.Child("taints"), m.Taints)...)
	return append(errs, validateLabels(path.Child("labels"), m.Labels)...)
}

// validateTaints refuses what the API server would refuse on the Node, and the keys of others: Kubernetes takes its own
// away again, and the uninitialized taint would never go.
func validateTaints(path *field.Path, taints []corev1.Taint) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for n, taint := range taints {
		path := path.Index(n)
		errs = append(errs, problems(path.Child("key"), taint.Key, validation.IsQualifiedName)...)
		errs = append(errs, problems(path.Child("value"), taint.Value, validation.IsValidLabelValue)...)
		errs = append(errs, requiredOneOf(path.Child("effect"), taint.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		if owner := reservedFor(taint.Key); owner != "" && !strings.HasPrefix(taint.Key, "node-role.kubernetes.io/") {
			errs = append(errs, field.Forbidden(path.Child("key"), "taints of "+owner+" are not the inventory's"))
		}
		same := taint.Key + ":" + string(taint.Effect)
		if seen[same] {
			errs = append(errs, field.Duplicate(path, same))
		}
		seen[same] = true
	}
	return errs
}

func (i MachineMatch) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if i.SystemUUID != "" && UUID(i.SystemUUID) == "" {
		errs = append(errs, field.Invalid(path.Child("systemUUID"), i.SystemUUID, "must be a UUID, and none that boards "+
			"are shipped with"))
	}
	if isPlaceholder(i.Serial) {
		errs = append(errs, field.Invalid(path.Child("serial"), i.Serial, "must be none that boards are shipped with"))
	}
	for n, mac := range i.MACs {
		if hardware, err := net.ParseMAC(mac); err != nil || !isOneMachines(hardware) {
			errs = append(errs, field.Invalid(path.Child("macs").Index(n), mac, "must be a MAC address, neither zero nor of a "+
				"group"))
		}
	}
	for n, id := range i.ProviderIDs {
		if !strings.Contains(id, "://") {
			errs = append(errs, field.Invalid(path.Child("providerIDs").Index(n), id, "must be a provider ID, SCHEME://..."))
		}
	}
	return errs
}

func validateAddress(path *field.Path, a corev1.NodeAddress) field.ErrorList {
	errs := requiredOneOf(path.Child("type"), a.Type,
		corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS)
	switch a.Type {
	case corev1.NodeInternalIP, corev1.NodeExternalIP:
		ip := netutils.ParseIPSloppy(a.Address)
		if ip == nil || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() {
			errs = append(errs, field.Invalid(path.Child("address"), a.Address, "must be an IP address of one machine"))
		}
	default:
		errs = append(errs, problems(path.Child("address"), strings.ToLower(a.Address), validation.IsDNS1123Subdomain)...)
	}
	return errs
}

// validateLabels refuses the keys that the node controller would drop.
func validateLabels(path *field.Path, labels map[string]string) field.ErrorList {
	var errs field.ErrorList
	for key, value := range labels {
		path := path.Key(key)
		errs = append(errs, problems(path, key, validation.IsQualifiedName)...)
		errs = append(errs, problems(path, value, validation.IsValidLabelValue)...)
		if owner := reservedFor(key); owner != "" {
			errs = append(errs, field.Forbidden(path, "labels of "+owner+" are not the inventory's"))
		}
	}
	return errs
}

// MayBeMachineLabel reports whether an inventory may have a label of that key.
func MayBeMachineLabel(key string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && reservedFor(key) == ""
}

// reservedFor returns whose a key is, if it is somebody's: Kubernetes' own, many of which a kubelet may not write, and
// ours.
func reservedFor(key string) string {
	domain, _, ok := strings.Cut(key, "/")
	for _, owner := range []string{"kubernetes.io", "k8s.io", v1alpha1.GroupName} {
		if ok && (domain == owner || strings.HasSuffix(domain, "."+owner)) {
			return owner
		}
	}
	return ""
}

func problems(path *field.Path, value string, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range check(value) {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

// requiredOneOf refuses also what is not set.
func requiredOneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return oneOf(path, value, allowed...)
}
