package templates

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The version and kind of a profile.
const (
	APIVersion = "ccmadm.dev/v1alpha1"
	Kind       = "ProviderProfile"
)

// Mode is how the pods of a cloud-controller-manager are run.
type Mode string

// The modes that have pods.
const (
	StaticPod  Mode = "StaticPod"
	DaemonSet  Mode = "DaemonSet"
	Deployment Mode = "Deployment"
)

// Profile says everything that differs between one provider's cloud-controller-manager and another's.
type Profile struct {
	metav1.TypeMeta `json:",inline"`

	// Name is the value of --cloud-provider, and part of the names of the objects.
	Name string `json:"name"`
	// Title is the provider's name for people.
	Title string `json:"title"`
	// Image is where the cloud-controller-manager comes from.
	Image Image `json:"image"`
	// Command replaces the image's entrypoint. Empty: the entrypoint is used.
	Command []string `json:"command,omitempty"`
	// Args are the provider's own arguments, --flag=value, in which ${clusterName}, ${podSubnet} and so on stand
	// for Values. One whose value is empty is left out. What every cloud-controller-manager needs (kubeconfigs, leader election, cluster name, routes,
	// cloud config) is added for all providers alike and need not be repeated.
	Args []string `json:"args,omitempty"`
	// Modes lists how it can run, the preferred one first.
	Modes []Mode `json:"modes"`
	// Config is the provider's configuration file.
	Config Config `json:"config"`
	// Credentials are further files beside the configuration file.
	Credentials []Credential `json:"credentials,omitempty"`
	// Routes says that the provider can program routes to pods.
	Routes bool `json:"routes,omitempty"`
	// RBAC is what it may do beyond what every cloud-controller-manager does: initialise nodes, write events, elect a
	// leader, and ask the API server about callers.
	RBAC []Rule `json:"rbac,omitempty"`
}

// Image names a container image.
type Image struct {
	// Repository is the image without its tag.
	Repository string `json:"repository"`
	// Tag may be ${version} or ${kubernetesVersion}, for it may follow the version of ccmadm or of Kubernetes.
	Tag string `json:"tag"`
}

// Format is how a configuration file is written.
type Format string

// The formats. Required keys can be checked in all but Opaque.
const (
	YAML   Format = "yaml"
	JSON   Format = "json"
	INI    Format = "ini"
	Opaque Format = "opaque"
)

// Config describes the file that --cloud-config names.
type Config struct {
	// Format is yaml, json, ini or opaque.
	Format Format `json:"format"`
	// File is its name in /etc/kubernetes/cloud-config, on the machine as in the pod.
	File string `json:"file"`
	// Required says that the provider does not start without it.
	Required bool `json:"required,omitempty"`
	// RequiredKeys must be there when the file is: dotted paths, for ini "Section.key".
	RequiredKeys []string `json:"requiredKeys,omitempty"`
}

// Credential is one more file in the configuration's directory.
type Credential struct {
	// Key is the file's name.
	Key string `json:"key"`
	// Required says that the provider does not start without it.
	Required bool `json:"required,omitempty"`
	// Why says what the provider does with it.
	Why string `json:"why"`
}

// Rule is one RBAC rule, with the reason that it is granted.
type Rule struct {
	// APIGroups are API groups; "" is the core group.
	APIGroups []string `json:"apiGroups"`
	// Resources are resources or subresources.
	Resources []string `json:"resources"`
	// ResourceNames limits the rule to these objects.
	ResourceNames []string `json:"resourceNames,omitempty"`
	// Verbs are what is allowed. "*" is refused.
	Verbs []string `json:"verbs"`
	// Namespaced grants it in kube-system only.
	Namespaced bool `json:"namespaced,omitempty"`
	// WithConfig grants it only where the user gives the provider a configuration file, without which it has no use.
	WithConfig bool `json:"withConfig,omitempty"`
	// Why names the caller of these verbs.
	Why string `json:"why"`
}

// Values are what profiles and manifests are rendered from.
type Values struct {
	// Mode is how the pods are run.
	Mode Mode
	// Version is that of ccmadm.
	Version string
	// Image is a complete reference. Empty: the profile's own.
	Image string
	// ClusterName tells the resources of one cluster in a cloud from another's.
	ClusterName string
	// KubernetesVersion is the cluster's, like v1.36.3.
	KubernetesVersion string
	// Endpoint is the API server's URL as seen from a machine. Static pods take theirs from a kubeconfig.
	Endpoint string
	// PodSubnet is the cluster's pod CIDR, or two with a comma.
	PodSubnet string
	// Routes lets the provider program routes to pods; needs PodSubnet.
	Routes bool
	// NodeLifecycle runs the controller that deletes the Nodes of machines that are gone.
	NodeLifecycle bool
	// CloudConfig says that the configuration file is there.
	CloudConfig bool
	// Credentials says that credential files are there.
	Credentials bool
	// ConfigHash changes with the contents of both, so that pods are replaced.
	ConfigHash string
	// Replicas is the size of a Deployment. 0 is 1.
	Replicas int32
	// ExtraArgs win over arguments of the same name.
	ExtraArgs []string
}
