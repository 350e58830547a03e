package config

import (
	"cmp"
	"net/netip"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// OnPremKind is the kind of the configuration of the provider onprem.
	OnPremKind = "OnPremConfiguration"

	// defaultSite is the site of provider IDs when the configuration names none.
	defaultSite = "default"

	// MinSilence is long enough for a kubelet to restart, and beyond the 40 s after
	// which kube-controller-manager calls a Node unknown.
	MinSilence = time.Minute
)

// OnPremConfiguration is the configuration file of provider onprem:
//
//	apiVersion: ccmadm.dev/v1alpha1
//	kind: OnPremConfiguration
//	site: ber1
//	region: ber
//	zone: ber-a
//	instanceType: generic
//	inventory: {configMap: ccmadm-machines}
//
// Every field is optional.
type OnPremConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Site is the first part of every provider ID. Provider IDs are immutable:
	// a later change is for machines that come later. Default: "default".
	Site string `json:"site,omitempty"`
	// Region becomes the label topology.kubernetes.io/region of a Node when it is initialized. Where it is empty, the
	// label that the Node already has is kept, for instance from the kubelet's --node-labels.
	Region string `json:"region,omitempty"`
	// Zone becomes the label topology.kubernetes.io/zone in the same way.
	Zone string `json:"zone,omitempty"`
	// InstanceType becomes the label node.kubernetes.io/instance-type in the same way.
	InstanceType string `json:"instanceType,omitempty"`

	// Inventory is where the list of machines is. Without one, every machine that joins is accepted. With one, site, region,
	// zone and type are the inventory's; the fields above are for Nodes that are not in it. A site that is set here must be
	// the inventory's.
	Inventory *InventorySource `json:"inventory,omitempty"`

	// LoadBalancers is for Services of type LoadBalancer.
	LoadBalancers LoadBalancers `json:"loadBalancers,omitzero"`
}

// LoadBalancers is for Services of type LoadBalancer.
type LoadBalancers struct {
	// Enabled false leaves them to another implementation, MetalLB for instance. Default: true.
	Enabled *bool `json:"enabled,omitempty"`
	// WithdrawEndpoints removes the pods of a failed machine from Services after about 12 seconds: its port 10391 does not
	// answer, and its kubelet has not renewed its Lease. With false they stay until kube-controller-manager marks the Node,
	// after about 50 seconds. Default: true.
	WithdrawEndpoints *bool `json:"withdrawEndpoints,omitempty"`
	// NodeNetworks are the networks of the Nodes, such as 192.0.2.0/24. At level NodeIP an address of a Node that is in none
	// of them is not published, unless the inventory lists it. Default: those that the agents of other Nodes report.
	NodeNetworks []string `json:"nodeNetworks,omitempty"`
}

// Networks are the nodeNetworks.
func (l LoadBalancers) Networks() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range l.NodeNetworks {
		if p, err := netip.ParsePrefix(text); err == nil { // Validate has said so
			list = append(list, p.Masked())
		}
	}
	return list
}

// Withdraws returns whether the endpoints of failed machines are taken out of Services.
func (l LoadBalancers) Withdraws() bool {
	return l.On() && (l.WithdrawEndpoints == nil || *l.WithdrawEndpoints)
}

// On returns whether Services are served.
func (l LoadBalancers) On() bool { return l.Enabled == nil || *l.Enabled }

// InventorySource is where the list of machines is. One of file, configMap and url is
// required.
//
// +oneOf=file,configMap,url
type InventorySource struct {
	// File is a path. It may be replaced while it is used.
	File string `json:"file,omitempty"`
	// ConfigMap is the name of one in kube-system, with key inventory.yaml. The
	// permissions that ccmadm grants are for the name ccmadm-machines.
	ConfigMap string `json:"configMap,omitempty"`
	// URL is an https address.
	// +pattern=^https://.
	URL string `json:"url,omitempty"`
	// CAFile has the certificates of the authorities that sign the URL's server. Default: those of the system.
	CAFile string `json:"caFile,omitempty"`
	// Timeout of one request to the URL. Default: 10s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Interval between two readings. Default: 10s, and 30s for the URL. A file and a
	// ConfigMap are also read as soon as they change.
	Interval metav1.Duration `json:"interval,omitzero"`
	// MaxLossPercent is how many of the machines in use may be missing or newly decommissioned in the next reading, and
	// always one. With more, the reading is rejected. Default: 20.
	MaxLossPercent int `json:"maxLossPercent,omitempty"`
	// MaxAge of an inventory by which a Node may be deleted, or its machine counts as off. Default: 10m.
	MaxAge metav1.Duration `json:"maxAge,omitzero"`
	// Silence is how long a kubelet has not posted its status before its Node may be deleted, one minute at least.
	// Default: 5m.
	Silence metav1.Duration `json:"silence,omitzero"`
	// DeletionDelay between the announcement of a deletion and the deletion.
	// Default: 5m.
	DeletionDelay metav1.Duration `json:"deletionDelay,omitzero"`
	// DryRun announces deletions, and deletes no Node.
	DryRun bool `json:"dryRun,omitempty"`
}

// Default fills what was left open.
func (c *InventorySource) Default() {
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

func (c *InventorySource) validate(path *field.Path) field.ErrorList {
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
			errs = append(errs, field.Invalid(path.Child("url"), field.OmitValueType{}, "must be https://HOST/..."))
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
		{"silence", c.Silence, MinSilence},
		{"deletionDelay", c.DeletionDelay, time.Second},
	} {
		if d.value.Duration < d.least {
			errs = append(errs, field.Invalid(path.Child(d.name), d.value.Duration.String(),
				"must be "+d.least.String()+" at least"))
		}
	}
	return errs
}

// Default fills what was left open.
func (c *OnPremConfiguration) Default() {
	if c.Inventory == nil {
		c.Site = cmp.Or(c.Site, defaultSite)
	} else {
		c.Inventory.Default()
	}
}

// Validate refuses what the API server would refuse on every Node: there, the same mistake leaves each of them tainted.
// Defaults must have been set.
func (c *OnPremConfiguration) Validate() field.ErrorList {
	var errs field.ErrorList
	if c.Inventory != nil {
		errs = c.Inventory.validate(field.NewPath("inventory"))
	}
	if c.Site != "" || c.Inventory == nil { // an inventory says which site it is of
		errs = append(errs, problems(field.NewPath("site"), c.Site, validation.IsDNS1123Label)...)
	}
	for i, text := range c.LoadBalancers.NodeNetworks {
		if _, err := netip.ParsePrefix(text); err != nil {
			path := field.NewPath("loadBalancers", "nodeNetworks").Index(i)
			errs = append(errs, field.Invalid(path, text, "must be a network such as 192.0.2.0/24"))
		}
	}
	place := Place{Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType}
	return append(errs, place.validate(nil)...)
}

// DecodeOnPremConfiguration reads a configuration in YAML strictly, sets its defaults and validates it; name leads the
// errors and may be empty. A text without a document is [ErrEmpty].
func DecodeOnPremConfiguration(name string, data []byte) (*OnPremConfiguration, error) {
	c := &OnPremConfiguration{}
	err := Text{Name: name, Data: data}.Decode(OnPremKind, c, func() field.ErrorList {
		c.Default()
		return c.Validate()
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}
