package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	configAPIVersion = "ccmadm.dev/v1alpha1"
	configKind       = "OnPremConfiguration"

	// defaultSite is the site of provider IDs when the configuration names none.
	defaultSite = "default"
)

// Configuration is the file behind --cloud-config:
//
//	apiVersion: ccmadm.dev/v1alpha1
//	kind: OnPremConfiguration
//	site: ber1
//	region: ber
//	zone: ber-a
//	instanceType: generic
//	inventory: {configMap: ccmadm-machines}
//
// Every field is optional. Plain settings may also be in the syntax of git-config,
// see readGCFG.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// Site is the first part of every provider ID. Provider IDs are immutable:
	// a later change is for machines that come later. Default: "default".
	Site string `json:"site,omitempty"`
	// Region, Zone and InstanceType become the well-known labels of a Node when
	// it is initialized. Where one is empty, the label that the Node already has
	// is kept, for instance from the kubelet's --node-labels.
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`

	// Inventory lists the machines. Without one, every machine is served as it
	// presents itself. With one, site, region, zone and type are the inventory's;
	// what is said above is for Nodes that are not in it. A site that is named here
	// must be the inventory's.
	Inventory *InventoryConfiguration `json:"inventory,omitempty"`
}

// ReadConfiguration decodes strictly and validates. A nil reader, or a file with
// nothing but comments, means the defaults.
func ReadConfiguration(r io.Reader) (Configuration, error) {
	c := Configuration{TypeMeta: metav1.TypeMeta{APIVersion: configAPIVersion, Kind: configKind}}
	if r != nil {
		data, err := io.ReadAll(r)
		if err != nil {
			return Configuration{}, fmt.Errorf("read %s: %w", configKind, err)
		}
		if c, err = parse(data, c); err != nil {
			return Configuration{}, err
		}
	}
	if c.Inventory == nil {
		c.Site = cmp.Or(c.Site, defaultSite)
	} else {
		c.Inventory.setDefaults()
	}
	return c, c.validate()
}

// parse reads YAML, or the plain settings in the syntax of git-config.
func parse(data []byte, defaults Configuration) (Configuration, error) {
	if isGCFG(data) {
		c, err := readGCFG(data)
		if err != nil {
			return c, fmt.Errorf("decode %s: %w", configKind, err)
		}
		return c, nil
	}
	document, err := readDocument(bytes.NewReader(data))
	if err != nil {
		return defaults, fmt.Errorf("read %s: %w", configKind, err)
	}
	if document == nil {
		return defaults, nil
	}
	c, err := decode(document)
	if err != nil {
		return c, fmt.Errorf("decode %s: %w", configKind, err)
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
func decode(document []byte) (Configuration, error) {
	c := Configuration{}
	problems, err := json.UnmarshalStrict(document, &c)
	return c, errors.Join(append(problems, err)...)
}

// validate refuses what the API server would refuse on every Node: there, the
// same mistake leaves each of them tainted.
func (c Configuration) validate() error {
	if c.APIVersion != configAPIVersion || c.Kind != configKind {
		return fmt.Errorf("decode %s: want apiVersion %q and kind %q, got %q and %q",
			configKind, configAPIVersion, configKind, c.APIVersion, c.Kind)
	}
	if c.Inventory != nil {
		if err := c.Inventory.validate(field.NewPath("inventory")).ToAggregate(); err != nil {
			return fmt.Errorf("validate %s: %w", configKind, err)
		}
	}
	if problems := validation.IsDNS1123Label(c.Site); len(problems) > 0 && (c.Site != "" || c.Inventory == nil) {
		return fmt.Errorf("validate %s: site: %q: %s", configKind, c.Site, strings.Join(problems, "; "))
	}
	for _, label := range []struct{ field, value string }{
		{"region", c.Region},
		{"zone", c.Zone},
		{"instanceType", c.InstanceType},
	} {
		if problems := validation.IsValidLabelValue(label.value); len(problems) > 0 {
			return fmt.Errorf("validate %s: %s: %q: %s", configKind, label.field, label.value, strings.Join(problems, "; "))
		}
	}
	return nil
}
