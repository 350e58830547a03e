package inventory

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

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
		Serial:     node.Annotations[v1alpha1.SerialAnnotation],
		MACs: strings.FieldsFunc(node.Annotations[v1alpha1.MACsAnnotation], func(r rune) bool {
			return r == ',' ||
				r == ' '
		}),
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
	ErrAmbiguous = errors.New("more than one machine matches")
	// ErrContradiction means that the name fits, and the machine is another one.
	ErrContradiction = errors.New("the name matches, the machine does not")
)

// Match returns the machine that a Node is, and how it was recognized; nil means
// that it is none of them.
//
// The first rule that fits decides. A Node that has an identity already is not
// looked up by name, for a name is easily given to the next machine, unless that
// identity was itself taken from what the Node showed before it was listed.
func (i *Inventory) Match(f Facts) (*config.Machine, Rule, error) {
	site, id, ours := Split(f.ProviderID)
	foreign := f.ProviderID != "" && !ours
	mayBeNamed := f.ProviderID == "" || ours && Adopted(id)
	uuid := config.UUID(f.SystemUUID)
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
		if listed := config.UUID(m.Match.SystemUUID); rule.name == ByName && listed != "" && uuid != "" && listed != uuid {
			return nil, rule.name, fmt.Errorf("match Node/%s by %s: %w: machine %s is listed with systemUUID %s, the Node "+
				"shows %s",
				f.Name, rule.name, ErrContradiction, m.ID, listed, uuid)
		}
		return m, rule.name, nil
	}
	return nil, "", nil
}

// only returns the machine that has any of the keys, if it is the only one.
func (i *Inventory) only(keys []string) (*config.Machine, error) {
	var found *config.Machine
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
		keys = append(keys, "mac="+config.CanonicalMAC(mac))
	}
	return keys
}
