package provider

import (
	"cmp"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

const (
	// inventoryNamespace and inventoryKey are where an inventory in a ConfigMap is.
	inventoryNamespace = metav1.NamespaceSystem
	inventoryKey       = "inventory.yaml"

	// lastGoodName is the ConfigMap of the last good inventory.
	lastGoodName = "ccmadm-machines-last-good"

	// minSilence is long enough for a kubelet to restart, and beyond the 40 s after
	// which kube-controller-manager calls a Node unknown.
	minSilence = time.Minute
)

// InventoryConfiguration says where the machines are listed. One of file,
// configMap and url is required.
type InventoryConfiguration struct {
	// File is a path. It may be replaced while it is used.
	File string `json:"file,omitempty"`
	// ConfigMap is the name of one in kube-system, with key inventory.yaml. The
	// permissions that ccmadm grants are for the name ccmadm-machines.
	ConfigMap string `json:"configMap,omitempty"`
	// URL is an https address; CAFile holds who vouches for it, if not one of the
	// system's authorities.
	URL    string `json:"url,omitempty"`
	CAFile string `json:"caFile,omitempty"`
	// Timeout of one request to the URL. Default: 10s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Interval between two readings. Default: 10s, and 30s for the URL. A file and a
	// ConfigMap are also read as soon as they change.
	Interval metav1.Duration `json:"interval,omitzero"`
	// MaxLossPercent of the machines may vanish from one reading to the next, but
	// always one; with more, the reading is rejected. Default: 20.
	MaxLossPercent int `json:"maxLossPercent,omitempty"`
	// MaxAge of an inventory from which a Node may be deleted. Default: 10m.
	MaxAge metav1.Duration `json:"maxAge,omitzero"`
	// Silence of a kubelet before its Node may be deleted, one minute at least.
	// Default: 5m.
	Silence metav1.Duration `json:"silence,omitzero"`
	// DeletionDelay between the announcement of a deletion and the deletion.
	// Default: 5m.
	DeletionDelay metav1.Duration `json:"deletionDelay,omitzero"`
	// DryRun announces deletions and does none.
	DryRun bool `json:"dryRun,omitempty"`
}

func (c *InventoryConfiguration) setDefaults() {
	set := func(d *metav1.Duration, value time.Duration) { d.Duration = cmp.Or(d.Duration, value) }
	interval := 10 * time.Second
	if c.URL != "" {
		interval = 30 * time.Second
	}
	set(&c.Interval, interval)
	set(&c.Timeout, 10*time.Second)
	set(&c.MaxAge, 10*time.Minute)
	set(&c.Silence, 5*time.Minute)
	set(&c.DeletionDelay, 5*time.Minute)
	c.MaxLossPercent = cmp.Or(c.MaxLossPercent, 20)
}

func (c *InventoryConfiguration) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	named := 0
	for _, source := range []string{c.File, c.ConfigMap, c.URL} {
		if source != "" {
			named++
		}
	}
	if named != 1 {
		errs = append(errs, field.Invalid(path, named, "want exactly one of file, configMap and url"))
	}
	if c.URL != "" {
		if u, err := url.Parse(c.URL); err != nil || u.Scheme != "https" || u.Host == "" {
			errs = append(errs, field.Invalid(path.Child("url"), c.URL, "must be https://HOST/..."))
		}
	}
	if c.MaxLossPercent < 0 || c.MaxLossPercent > 100 {
		errs = append(errs, field.Invalid(path.Child("maxLossPercent"), c.MaxLossPercent, "must be between 1 and 100"))
	}
	for _, d := range []struct {
		name  string
		value metav1.Duration
		least time.Duration
	}{
		{"interval", c.Interval, time.Second},
		{"timeout", c.Timeout, time.Second},
		{"maxAge", c.MaxAge, time.Second},
		{"silence", c.Silence, minSilence},
		{"deletionDelay", c.DeletionDelay, time.Second},
	} {
		if d.value.Duration < d.least {
			errs = append(errs, field.Invalid(path.Child(d.name), d.value.Duration.String(), "must be "+d.least.String()+" at least"))
		}
	}
	return errs
}

// source opens what the configuration names.
func (c *InventoryConfiguration) source(client kubernetes.Interface) (inventory.Source, error) {
	switch {
	case c.URL != "":
		return inventory.NewHTTPS(c.URL, c.CAFile, c.Timeout.Duration, c.Interval.Duration)
	case c.ConfigMap != "":
		return inventory.ConfigMap{
			Client: client, Namespace: inventoryNamespace, Name: c.ConfigMap, Key: inventoryKey, Interval: c.Interval.Duration,
		}, nil
	default:
		return inventory.File{Path: c.File, Interval: c.Interval.Duration}, nil
	}
}

// bounds are the settings of the guard.
func (c *InventoryConfiguration) bounds() inventory.Bounds {
	return inventory.Bounds{MaxAge: c.MaxAge.Duration, Silence: c.Silence.Duration}
}
