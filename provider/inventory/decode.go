package inventory

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxBytes is far beyond what 100,000 machines need, and keeps a server that
// never ends its answer from filling the memory.
const maxBytes = 64 << 20

// Read decodes strictly, sets defaults, and validates: the error names every
// field that is wrong, with its path.
func Read(r io.Reader) (*Inventory, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Kind, err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("read %s: more than %d bytes", Kind, maxBytes)
	}
	return Decode(data)
}

// Decode does what Read does.
func Decode(data []byte) (*Inventory, error) {
	document, err := onlyDocument(data)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", Kind, err)
	}
	i := &Inventory{}
	problems, err := json.UnmarshalStrict(document, i)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, fmt.Errorf("decode %s: %w", Kind, err)
	}
	if i.APIVersion != APIVersion || i.Kind != Kind {
		return nil, fmt.Errorf("decode %s: want apiVersion %q and kind %q, got %q and %q", Kind, APIVersion, Kind, i.APIVersion, i.Kind)
	}
	i.setDefaults()
	if err := i.validate(); err != nil {
		return nil, fmt.Errorf("validate %s: %w", Kind, err)
	}
	return i, nil
}

// onlyDocument returns the document as JSON. A file that ends early between two
// documents must not pass for a shorter inventory: there is exactly one.
func onlyDocument(data []byte) ([]byte, error) {
	var found []byte
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		document, err = yaml.YAMLToJSONStrict(document)
		switch {
		case err != nil:
			return nil, err
		case string(document) == "null":
			continue
		case found != nil:
			return nil, errors.New("want one document, got more")
		}
		found = document
	}
	if found == nil {
		return nil, errors.New("there is nothing in it")
	}
	return found, nil
}

func (i *Inventory) setDefaults() {
	p := &i.Policy
	p.UnknownNodes = cmp.Or(p.UnknownNodes, Adopt)
	p.Deletion = cmp.Or(p.Deletion, Tombstone)
	p.Absence.MinSnapshots = cmp.Or(p.Absence.MinSnapshots, 3)
	p.Absence.MinDuration = cmp.Or(p.Absence.MinDuration, minutes(15))
	p.DeletionBudget.Max = cmp.Or(p.DeletionBudget.Max, 1)
	p.DeletionBudget.Per = cmp.Or(p.DeletionBudget.Per, minutes(10))
	p.DeletionBudget.MaxPercent = cmp.Or(p.DeletionBudget.MaxPercent, 10)
	for n := range i.Machines {
		m := &i.Machines[n]
		m.State = cmp.Or(m.State, Active)
		m.Power.State = cmp.Or(m.Power.State, Unknown)
		m.Region = cmp.Or(m.Region, i.Defaults.Region)
		m.Zone = cmp.Or(m.Zone, i.Defaults.Zone)
		m.InstanceType = cmp.Or(m.InstanceType, i.Defaults.InstanceType)
	}
}

func minutes(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Minute}
}
