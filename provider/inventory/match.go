package inventory

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Scheme starts every provider ID of ours. Never change it: provider IDs are immutable.
const Scheme = "onprem"

// NamePrefix keeps ids made from a Node's name apart from the others, which are
// hexadecimal: no UUID and no machine-id starts like this. Never change it.
const NamePrefix = "node-"

// Annotations by which something on the machine, or an operator, adds to what the
// kubelet shows of it.
const (
	AnnotationSerial = "ccmadm.dev/serial"
	AnnotationMACs   = "ccmadm.dev/macs"
)

// ProviderID joins site and id. Never change the form: provider IDs are immutable.
func ProviderID(site, id string) string { return Scheme + "://" + site + "/" + id }

// Split takes a provider ID of ours apart.
func Split(providerID string) (site, id string, ours bool) {
	rest, ours := strings.CutPrefix(providerID, Scheme+"://")
	if !ours {
		return "", "", false
	}
	site, id, _ = strings.Cut(rest, "/")
	return site, id, true
}

// Facts are what a Node shows of its machine.
type Facts struct {
	Name       string
	ProviderID string
	SystemUUID string
	Serial     string
	MACs       []string
}

// FactsOf reads a Node.
func FactsOf(node *corev1.Node) Facts {
	return Facts{
		Name:       node.Name,
		ProviderID: node.Spec.ProviderID,
		SystemUUID: node.Status.NodeInfo.SystemUUID,
		Serial:     node.Annotations[AnnotationSerial],
		MACs:       strings.FieldsFunc(node.Annotations[AnnotationMACs], func(r rune) bool { return r == ',' || r == ' ' }),
	}
}

// Rule names what a machine was recognized by.
type Rule string

// The rules, in the order in which they are tried.
const (
	ByProviderID Rule = "providerID"
	BySystemUUID Rule = "systemUUID"
	ByHardware   Rule = "serial/MAC"
	ByName       Rule = "name"
)

// Sentinels for callers that treat the reasons differently.
var (
	// ErrAmbiguous means that several machines fit.
	ErrAmbiguous = errors.New("more than one machine fits")
	// ErrContradiction means that the name fits, and the machine is another one.
	ErrContradiction = errors.New("the name fits, the machine does not")
)

// Match returns the machine that a Node is, and how it was recognized; nil means
// that it is none of them.
//
// The first rule that fits decides. A Node that has an identity already is not
// looked up by name, for a name is easily given to the next machine, unless that
// identity was itself taken from what the Node showed before it was listed.
func (i *Inventory) Match(f Facts) (*Machine, Rule, error) {
	site, id, ours := Split(f.ProviderID)
	foreign := f.ProviderID != "" && !ours
	mayBeNamed := f.ProviderID == "" || ours && Adopted(id)
	uuid := UUID(f.SystemUUID)
	for _, rule := range []struct {
		name Rule
		on   bool
		keys []string
	}{
		{ByProviderID, f.ProviderID != "", i.providerIDKeys(site, id, f.ProviderID)},
		{BySystemUUID, !foreign && uuid != "", []string{"systemUUID=" + uuid}},
		{ByHardware, !foreign, f.hardwareKeys()},
		{ByName, mayBeNamed, []string{"hostname=" + strings.ToLower(f.Name)}},
	} {
		if !rule.on {
			continue
		}
		m, err := i.only(rule.keys)
		if err != nil {
			return nil, rule.name, fmt.Errorf("match Node/%s by %s: %w", f.Name, rule.name, err)
		}
		if m == nil {
			continue
		}
		if listed := UUID(m.Match.SystemUUID); rule.name == ByName && listed != "" && uuid != "" && listed != uuid {
			return nil, rule.name, fmt.Errorf("match Node/%s by %s: %w: machine %s is listed with systemUUID %s, the Node shows %s",
				f.Name, rule.name, ErrContradiction, m.ID, listed, uuid)
		}
		return m, rule.name, nil
	}
	return nil, "", nil
}

// Adopted says whether an id was made from what a Node showed of itself.
func Adopted(id string) bool { return strings.HasPrefix(id, NamePrefix) || Hex128(id) != "" }

// only returns the machine that has any of the keys, if it is the only one.
func (i *Inventory) only(keys []string) (*Machine, error) {
	var found *Machine
	for _, key := range keys {
		switch m := i.byKey[key]; {
		case m == nil || m == found:
		case found != nil:
			return nil, fmt.Errorf("%w: %s and %s", ErrAmbiguous, found.ID, m.ID)
		default:
			found = m
		}
	}
	return found, nil
}

func (i *Inventory) providerIDKeys(site, id, providerID string) []string {
	keys := []string{"providerID=" + providerID}
	if site == i.Metadata.Site {
		keys = append(keys, "id="+id)
	}
	return keys
}

func (f Facts) hardwareKeys() []string {
	var keys []string
	if f.Serial != "" {
		keys = append(keys, "serial="+f.Serial)
	}
	for _, mac := range f.MACs {
		keys = append(keys, "mac="+canonicalMAC(mac))
	}
	return keys
}

// keys lists all that a machine can be found by, each with where it is written.
// No two machines share one: see validate.
func (m *Machine) keys(path *field.Path) []key {
	list := []key{{"id", m.ID, path.Child("id")}}
	add := func(kind, value string, path *field.Path) {
		if value != "" {
			list = append(list, key{kind, value, path})
		}
	}
	match := path.Child("match")
	add("systemUUID", UUID(m.Match.SystemUUID), match.Child("systemUUID"))
	add("serial", m.Match.Serial, match.Child("serial"))
	for n, mac := range m.Match.MACs {
		add("mac", canonicalMAC(mac), match.Child("macs").Index(n))
	}
	for n, id := range m.Match.ProviderIDs {
		add("providerID", id, match.Child("providerIDs").Index(n))
	}
	for _, name := range m.names() {
		add("hostname", name, path.Child("hostname"))
	}
	return list
}

// key is something that a machine can be found by.
type key struct {
	kind, value string
	path        *field.Path
}

// names lists the Node names of a machine, each once, as a kubelet registers them.
func (m *Machine) names() []string {
	var all []string
	for _, name := range append([]string{m.Hostname}, m.Match.Hostnames...) {
		if name = strings.ToLower(name); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Named says whether a Node of that name is listed as the machine. Without a name
// in the inventory, it is none's.
func (m *Machine) Named(node string) bool { return slices.Contains(m.names(), strings.ToLower(node)) }

func canonicalMAC(s string) string {
	mac, err := net.ParseMAC(s)
	if err != nil {
		return strings.ToLower(s)
	}
	return mac.String()
}
