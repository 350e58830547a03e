package inventory

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const kind = v1alpha1.InventoryKind

// maxBytes is far beyond what 100,000 machines need, and keeps a server that
// never ends its answer from filling the memory.
const maxBytes = 64 << 20

// Decode decodes strictly, sets defaults, and validates: the error names every
// field that is wrong, with its path.
func Decode(data []byte) (*Inventory, error) {
	document, err := onlyDocument(data)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", kind, err)
	}
	i := &v1alpha1.Inventory{}
	problems, err := json.UnmarshalStrict(document, i)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kind, err)
	}
	if i.APIVersion != v1alpha1.APIVersion || i.Kind != kind {
		return nil, fmt.Errorf("decode %s: want apiVersion %q and kind %q, got %q and %q", kind, v1alpha1.APIVersion, kind, i.APIVersion, i.Kind)
	}
	i.Default()
	if err := i.Validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("validate %s: %w", kind, err)
	}
	return newInventory(i), nil
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
