package v1alpha1

import (
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
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
	return append(errs, i.validateKeys()...)
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

// validateKeys refuses a key that two machines have.
func (i *Inventory) validateKeys() field.ErrorList {
	var errs field.ErrorList
	owners := map[string]*Machine{}
	for n := range i.Machines {
		m := &i.Machines[n]
		for _, key := range m.Keys(field.NewPath("machines").Index(n)) {
			if other, ok := owners[key.String()]; ok {
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
	for n, taint := range m.Taints {
		path := path.Child("taints").Index(n)
		errs = append(errs, problems(path.Child("key"), taint.Key, validation.IsQualifiedName)...)
		errs = append(errs, problems(path.Child("value"), taint.Value, validation.IsValidLabelValue)...)
		errs = append(errs, requiredOneOf(path.Child("effect"), taint.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	return append(errs, validateLabels(path.Child("labels"), m.Labels)...)
}

func (i MachineMatch) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if i.SystemUUID != "" && UUID(i.SystemUUID) == "" {
		errs = append(errs, field.Invalid(path.Child("systemUUID"), i.SystemUUID, "must be a UUID, and none that boards are shipped with"))
	}
	for n, mac := range i.MACs {
		if _, err := net.ParseMAC(mac); err != nil {
			errs = append(errs, field.Invalid(path.Child("macs").Index(n), mac, "must be a MAC address"))
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
		if netutils.ParseIPSloppy(a.Address) == nil {
			errs = append(errs, field.Invalid(path.Child("address"), a.Address, "must be an IP address"))
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

// MayBeMachineLabel says whether an inventory may have a label of that key.
func MayBeMachineLabel(key string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && reservedFor(key) == ""
}

// reservedFor returns whose a key is, if it is somebody's: Kubernetes' own, many of which a kubelet may not write, and ours.
func reservedFor(key string) string {
	domain, _, ok := strings.Cut(key, "/")
	for _, owner := range []string{"kubernetes.io", "k8s.io", GroupName} {
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
