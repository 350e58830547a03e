package config

import (
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
)

// ConfigKind is the kind of CloudConfiguration.
const ConfigKind = "CloudConfiguration"

// Mode is how the cloud-controller-manager runs.
type Mode string

// The modes. Auto becomes one of the others before anything is written.
const (
	ModeAuto       Mode = "Auto"
	ModeStaticPod  Mode = "StaticPod"
	ModeDaemonSet  Mode = "DaemonSet"
	ModeDeployment Mode = "Deployment"
	// ModeManual sets the kubelet flags and leaves the cloud-controller-manager to the user.
	ModeManual Mode = "Manual"
)

// Lifecycle is the policy for deleting Nodes whose machine is gone.
type Lifecycle string

// The lifecycle policies.
const (
	// LifecycleGuarded runs the cloud-node-lifecycle controller.
	LifecycleGuarded Lifecycle = "Guarded"
	// LifecycleOff leaves it out, so that no Node is ever deleted or marked as shut down.
	LifecycleOff Lifecycle = "Off"
)

// CloudConfiguration is everything ccmadm is told about a cluster. It stands as a document of its own in the
// kubeadm configuration file, or in a file by itself.
type CloudConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Provider names a profile, or is "auto" to ask the machine's DMI data. Default: onprem.
	Provider string `json:"provider,omitempty"`
	// Profile is a file with a profile of the user's own, relative to the document that names it.
	Profile string `json:"profile,omitempty"`
	// ClusterName is passed to the provider. Default: kubeadm's clusterName if it was set, else a name derived
	// from the cluster's CA; never the "kubernetes" that all clusters share.
	// +pattern=^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$
	ClusterName string `json:"clusterName,omitempty"`
	// Mode is StaticPod, DaemonSet, Deployment, Manual or Auto. Default: Auto.
	Mode Mode `json:"mode,omitempty"`
	// ControllerManager changes the cloud-controller-manager's image and arguments.
	ControllerManager ControllerManager `json:"controllerManager,omitzero"`
	// CloudConfig is the provider's own configuration file.
	CloudConfig CloudConfigFile `json:"cloudConfig,omitzero"`
	// Inventory is a list of machines, for a provider that serves those; a path, relative to the document that names it.
	// The provider's configuration file is made to point at it.
	Inventory string `json:"inventory,omitempty"`
	// Credentials are further keys of the same Secret.
	Credentials []Credential `json:"credentials,omitempty"`
	// NodeIP is the kubelet's --node-ip: Auto, Default (the address of the default route when it registers, which stays),
	// an address, a comma separated pair for dual-stack, or a CIDR that the address is in. Default: Auto.
	// +pattern=^(Auto|Default|[0-9a-fA-F:.]+(,[0-9a-fA-F:.]+|/[0-9]+)?)$
	NodeIP string `json:"nodeIP,omitempty"`
	// Routes lets the provider program pod routes. false overrides a recorded true. Default: false.
	Routes *bool `json:"routes,omitempty"`
	// NodeAgent is the program on each node that announces addresses of load balancers and sets routes, where the
	// provider has one.
	NodeAgent AgentPolicy `json:"nodeAgent,omitzero"`
	// ControlPlaneVIP is an address of the control plane that moves to a machine whose API server answers.
	ControlPlaneVIP ControlPlaneVIP `json:"controlPlaneVIP,omitzero"`
	// ServingCertificates is about those that kubelets ask for.
	ServingCertificates ServingCertificates `json:"servingCertificates,omitzero"`
	// Lifecycle is Guarded or Off. Default: Guarded.
	Lifecycle Lifecycle `json:"lifecycle,omitempty"`
	// Wait bounds the wait phase.
	Wait WaitPolicy `json:"wait,omitzero"`
}

// ControllerManager changes what runs.
type ControllerManager struct {
	// Image replaces the profile's image, tag included.
	Image string `json:"image,omitempty"`
	// Version replaces the tag of the profile's image.
	Version string `json:"version,omitempty"`
	// ExtraArgs are appended to the profile's arguments, as --flag=value. A credential in one is refused.
	// +pattern=^--[^=]+=
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// ExtraEnv are environment variables, as NAME=value. A credential is refused, as the cluster's record and the pods show
	// values. NAME=${credential:KEY} takes the value from a key of credentials, but in mode StaticPod.
	// +pattern=^[-._a-zA-Z][-._a-zA-Z0-9]*=
	ExtraEnv []string `json:"extraEnv,omitempty"`
}

// CloudConfigFile names the provider's configuration file.
type CloudConfigFile struct {
	// File is a path, relative to the document that names it.
	File string `json:"file,omitempty"`
}

// Credential is one more key of the provider's Secret. Its value comes from either File or Env.
//
// +oneOf=file,env
type Credential struct {
	// Key is the name of the file in the pod.
	// +pattern=^[-._a-zA-Z0-9]+$
	Key string `json:"key"`
	// File is a path, relative to the document that names it.
	File string `json:"file,omitempty"`
	// Env is an environment variable of ccmadm.
	Env string `json:"env,omitempty"`
}

// AgentPolicy configures a program of the provider that runs on each node.
type AgentPolicy struct {
	// Enabled runs it. false overrides a recorded true. Default: true if routes need it.
	Enabled *bool `json:"enabled,omitempty"`
	// Image replaces the profile's, tag included.
	Image string `json:"image,omitempty"`
}

// WaitPolicy bounds the wait for initialized nodes.
type WaitPolicy struct {
	// Timeout is a Go duration. Default: 5m.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// DecodeCloudConfiguration reads our document strictly, without defaults; line is where in the file name its text
// starts. Relative file names are resolved against the directory of name. What only the caller can know, such as which
// providers there are, it checks in also. Its error has exit code 2, and a line for each problem.
func DecodeCloudConfiguration(name string, line int, data []byte,
	also ...func(*CloudConfiguration) field.ErrorList,
) (*CloudConfiguration, error) {
	c := &CloudConfiguration{}
	err := Text{Name: name, Line: line, Data: data}.Decode(ConfigKind, c, func() field.ErrorList {
		c.Resolve(filepath.Dir(name))
		errs := c.Validate()
		for _, check := range also {
			errs = append(errs, check(c)...)
		}
		return errs
	})
	if err != nil {
		return nil, finding.Usagef("%w", err).WithHint("`ccmadm config print` shows every field")
	}
	return c, nil
}

// WantsRoutes returns whether the provider is to program pod routes.
func (c *CloudConfiguration) WantsRoutes() bool { return ptr.Deref(c.Routes, false) }

// Encode returns the document as YAML.
func (c *CloudConfiguration) Encode() ([]byte, error) {
	data, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ConfigKind, err)
	}
	return data, nil
}

// ProviderAuto asks the machine which cloud it runs in.
const ProviderAuto = "auto"

// The node-ip policies that are not addresses.
const (
	NodeIPAuto    = "Auto"
	NodeIPDefault = "Default"
)
