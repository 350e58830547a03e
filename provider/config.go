package provider

import (
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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
//
// Every field is optional.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// Site is the first part of every provider ID. Provider IDs are immutable:
	// a later change is for machines that come later. Default: "default".
	Site string `json:"site,omitempty"`
	// Region, Zone and InstanceType become the well-known labels of a Node when
	// it is initialised. Where one is empty, the label that the Node already has
	// is kept, for instance from the kubelet's --node-labels.
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
}

// ReadConfiguration decodes strictly and validates. A nil reader, or a file with
// nothing but comments, means the defaults.
func ReadConfiguration(r io.Reader) (Configuration, error) {
	c := Configuration{}
	if r != nil {
		data, err := io.ReadAll(r)
		if err != nil {
			return Configuration{}, fmt.Errorf("read %s: %w", configKind, err)
		}
		if err := yaml.UnmarshalStrict(data, &c); err != nil {
			return Configuration{}, fmt.Errorf("decode %s: %w", configKind, err)
		}
	}
	if c == (Configuration{}) {
		c.APIVersion, c.Kind = configAPIVersion, configKind
	}
	if c.Site == "" {
		c.Site = defaultSite
	}
	return c, c.validate()
}

// validate refuses what the API server would refuse on every Node: there, the
// same mistake leaves each of them tainted.
func (c Configuration) validate() error {
	if c.APIVersion != configAPIVersion || c.Kind != configKind {
		return fmt.Errorf("decode %s: want apiVersion %q and kind %q, got %q and %q",
			configKind, configAPIVersion, configKind, c.APIVersion, c.Kind)
	}
	if problems := validation.IsDNS1123Label(c.Site); len(problems) > 0 {
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
