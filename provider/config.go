package provider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// ReadConfiguration decodes strictly and validates. A nil reader, or a file with
// nothing but comments, means the defaults.
func ReadConfiguration(r io.Reader) (v1alpha1.OnPremConfiguration, error) {
	c := v1alpha1.OnPremConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.OnPremKind}}
	if r != nil {
		data, err := io.ReadAll(r)
		if err != nil {
			return v1alpha1.OnPremConfiguration{}, fmt.Errorf("read %s: %w", v1alpha1.OnPremKind, err)
		}
		if c, err = parse(data, c); err != nil {
			return v1alpha1.OnPremConfiguration{}, err
		}
	}
	if c.APIVersion != v1alpha1.APIVersion || c.Kind != v1alpha1.OnPremKind {
		return c, fmt.Errorf("decode %s: want apiVersion %q and kind %q, got %q and %q",
			v1alpha1.OnPremKind, v1alpha1.APIVersion, v1alpha1.OnPremKind, c.APIVersion, c.Kind)
	}
	c.Default()
	if err := c.Validate().ToAggregate(); err != nil {
		return c, fmt.Errorf("validate %s: %w", v1alpha1.OnPremKind, err)
	}
	return c, nil
}

// parse reads YAML, or the plain settings in the syntax of git-config.
func parse(data []byte, defaults v1alpha1.OnPremConfiguration) (v1alpha1.OnPremConfiguration, error) {
	if isGCFG(data) {
		c, err := readGCFG(data)
		if err != nil {
			return c, fmt.Errorf("decode %s: %w", v1alpha1.OnPremKind, err)
		}
		return c, nil
	}
	document, err := readDocument(bytes.NewReader(data))
	if err != nil {
		return defaults, fmt.Errorf("read %s: %w", v1alpha1.OnPremKind, err)
	}
	if document == nil {
		return defaults, nil
	}
	c, err := decode(document)
	if err != nil {
		return c, fmt.Errorf("decode %s: %w", v1alpha1.OnPremKind, err)
	}
	return c, nil
}

// readDocument returns the only document of a YAML file as JSON, or nil if there
// are none but empty ones. More than one would be ignored: refuse them.
func readDocument(r io.Reader) ([]byte, error) {
	var found []byte
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(r)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		document, err = yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		if string(document) == "null" {
			continue
		}
		if found != nil {
			return nil, errors.New("want one document, got more")
		}
		found = document
	}
}

// decode refuses unknown fields, letters in the wrong case included.
func decode(document []byte) (v1alpha1.OnPremConfiguration, error) {
	c := v1alpha1.OnPremConfiguration{}
	problems, err := json.UnmarshalStrict(document, &c)
	return c, errors.Join(append(problems, err)...)
}

// sourceOf opens what the configuration names.
func sourceOf(c v1alpha1.InventorySource, client kubernetes.Interface) inventory.Source {
	switch {
	case c.URL != "":
		return inventory.NewHTTPS(c.URL, c.CAFile, c.Timeout.Duration, c.Interval.Duration)
	case c.ConfigMap != "":
		return inventory.ConfigMap{
			Client: client, Namespace: v1alpha1.Namespace, Name: c.ConfigMap, Key: v1alpha1.MachinesKey, Interval: c.Interval.Duration,
		}
	default:
		return inventory.File{Path: c.File, Interval: c.Interval.Duration}
	}
}
