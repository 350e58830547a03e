package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// ReadConfiguration decodes strictly and validates. A nil reader, or a file with
// nothing but comments, means the defaults.
func ReadConfiguration(r io.Reader) (config.OnPremConfiguration, error) {
	c := config.OnPremConfiguration{TypeMeta: metav1.TypeMeta{
		APIVersion: v1alpha1.APIVersion,
		Kind:       config.OnPremKind,
	}}
	if r != nil {
		data, err := io.ReadAll(r)
		if err != nil {
			return config.OnPremConfiguration{}, fmt.Errorf("read %s: %w", config.OnPremKind, err)
		}
		if c, err = parse(data, c); err != nil {
			return config.OnPremConfiguration{}, err
		}
	}
	c.Default()
	if err := c.Validate().ToAggregate(); err != nil { // YAML was validated with its lines
		return c, fmt.Errorf("validate %s: %w", config.OnPremKind, err)
	}
	return c, nil
}

// parse reads YAML, the only format.
func parse(data []byte, defaults config.OnPremConfiguration) (config.OnPremConfiguration, error) {
	if number, section, found := gitConfigSection(data); found {
		return defaults, fmt.Errorf("read %s: line %d: %s begins a section of the git-config format, and only YAML is read: "+
			"write \"site: ber1\" instead of \"site = ber1\"; `ccmadm config schema %[1]s` has all fields", config.OnPremKind, number, section)
	}
	c, err := config.DecodeOnPremConfiguration("", data)
	if errors.Is(err, config.ErrEmpty) {
		return defaults, nil
	}
	if err != nil {
		return defaults, err
	}
	return *c, nil
}

// gitConfigSection returns the first line that is neither empty nor a comment, if it is a section such as [Global]. Other
// providers have files of that format. A YAML document of ours never begins so.
func gitConfigSection(data []byte) (number int, section string, found bool) {
	for line := range bytes.Lines(data) {
		number++
		if text := string(bytes.TrimSpace(line)); text != "" && !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, ";") {
			return number, text, strings.HasPrefix(text, "[")
		}
	}
	return 0, "", false
}

// sourceOf opens what the configuration names.
func sourceOf(c config.InventorySource, client kubernetes.Interface) inventory.Source {
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
