package templates

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is that of a profile; its version is that of all documents of ours.
const Kind = "ProviderProfile"

// Mode is how the pods of a cloud-controller-manager are run.
type Mode string

// The modes that have pods.
const (
	StaticPod  Mode = "StaticPod"
	DaemonSet  Mode = "DaemonSet"
	Deployment Mode = "Deployment"
)

// Status tells how far a profile can be relied on.
type Status string

// The statuses.
const (
	// Supported: the provider is maintained and has a release for the newest Kubernetes, or one for all.
	Supported Status = "Supported"
	// BestEffort: it should work; the provider lags behind, or parts were never tried.
	BestEffort Status = "BestEffort"
	// Deprecated: there is something better, which Instead names.
	Deprecated Status = "Deprecated"
	// Example: for learning and tests, not for a cluster that matters.
	Example Status = "Example"
)

// Feature is what a cloud-controller-manager does for a cluster.
type Feature string

// The features, by the controllers of k8s.io/cloud-provider.
const (
	// Nodes initializes Nodes: without it the uninitialized taint stays, and external mode may not be used.
	Nodes Feature = "Nodes"
	// Lifecycle deletes the Nodes of machines that are gone.
	Lifecycle Feature = "Lifecycle"
	// Services serves those of type LoadBalancer.
	Services Feature = "Services"
	// Routes programs routes to pods.
	Routes Feature = "Routes"
)

// Profile says everything that differs between one provider's cloud-controller-manager and another's.
type Profile struct {
	metav1.TypeMeta `json:",inline"`

	// Name is what a user calls the provider, and part of the names of the objects.
	// +pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$
	Name string `json:"name"`
	// CloudProvider is the value of --cloud-provider where it is not the name.
	CloudProvider string `json:"cloudProvider,omitempty"`
	// Title is the provider's name for people.
	Title string `json:"title"`
	// Status is Supported, BestEffort, Deprecated or Example.
	Status Status `json:"status"`
	// Instead says what to use in place of a profile that is Deprecated or an Example.
	Instead string `json:"instead,omitempty"`
	// Home is where the cloud-controller-manager is developed.
	Home string `json:"home,omitempty"`
	// Checked says how the profile was compared with the program. Profiles that are built in have to say so.
	Checked *Checked `json:"checked,omitempty"`
	// Rehearsal says whether `ccmadm rehearse` may run it. Profiles that are built in have to say so.
	Rehearsal *Rehearsal `json:"rehearsal,omitempty"`
	// Features lists what it does: Nodes, Lifecycle, Services, Routes.
	Features []Feature `json:"features"`
	// Modes lists how it can run, the preferred one first.
	Modes []Mode `json:"modes"`
	// DMI recognizes the provider's machines by files of /sys/class/dmi/id: each item is a set of file names and how
	// their content begins, in any case; one item that fits is enough.
	DMI []map[string]string `json:"dmi,omitempty"`

	// Container is the cloud-controller-manager itself.
	Container `json:",inline"`
	// RoutesArgs are added to Args where routes are wanted.
	// +pattern=^--[^=]+=
	RoutesArgs []string `json:"routesArgs,omitempty"`
	// ServingArgs are added to Args where serving certificates of kubelets are to be approved. None: the program does not do
	// that, and one of ccmadm's runs beside it.
	// +pattern=^--[^=]+=
	ServingArgs []string `json:"servingArgs,omitempty"`
	// ServingNames are the DNS names that the cloud gives its machines, such as *.compute.internal: its program writes them to the
	// Node's addresses, and kubelets ask for certificates of them.
	// +pattern=^[*][.][a-z0-9.-]+$
	ServingNames []string `json:"servingNames,omitempty"`
	// NamesByService says that load balancers and routes are named from the Service or the Node, so that clusters of one
	// account do not meet under one --cluster-name.
	NamesByService bool `json:"namesByService,omitempty"`
	// OwnFlags says that the program does not have the flags of k8s.io/cloud-provider/app: then Args is the whole
	// command line.
	OwnFlags bool `json:"ownFlags,omitempty"`
	// WithoutControllers are those of the program's controllers that must not run, by the names of its --controllers.
	WithoutControllers []string `json:"withoutControllers,omitempty"`
	// UserArgs are arguments that only the user can give, in controllerManager.extraArgs; without them it cannot run.
	UserArgs []string `json:"userArgs,omitempty"`
	// Health is where its probes ask. Default: HTTPS, port 10258, /healthz. The port is given as --secure-port.
	Health Health `json:"health,omitzero"`
	// Ports are further ports that it takes from the machine.
	Ports []Port `json:"ports,omitempty"`
	// Lease names the Lease of its leader in kube-system. Default: cloud-controller-manager.
	Lease string `json:"lease,omitempty"`
	// Agents run beside it on every node, in every mode.
	Agents []Agent `json:"agents,omitempty"`
	// NodeAgent runs beside it on every node where the user wants it (--node-agent). None: the provider has no such part.
	NodeAgent *NodeAgent `json:"nodeAgent,omitempty"`

	// Config is the provider's configuration file. None: the provider reads no file.
	Config *Config `json:"config,omitempty"`
	// Credentials are further files beside the configuration file, and what Env takes its secrets from.
	Credentials []Credential `json:"credentials,omitempty"`
	// RBAC is what it may do beyond what every cloud-controller-manager does: initialize nodes, serve Services where
	// that is among its features, write events, elect a leader, and ask the API server about callers.
	RBAC []Rule `json:"rbac,omitempty"`

	// Node says what the provider expects of a machine.
	Node NodeRules `json:"node,omitzero"`
	// Metadata is the service that tells a machine about itself.
	Metadata *Metadata `json:"metadata,omitempty"`
	// Requirements are what must be there before: permissions, tags, networks.
	Requirements []string `json:"requirements,omitempty"`
	// Gotchas are known traps.
	Gotchas []string `json:"gotchas,omitempty"`
}

// Has says whether the provider has the feature.
func (p *Profile) Has(f Feature) bool { return slices.Contains(p.Features, f) }

// Supports says whether the provider can run that way.
func (p *Profile) Supports(m Mode) bool { return slices.Contains(p.Modes, m) }

// Container is one program and how it is started.
type Container struct {
	// Image is where it comes from.
	Image Image `json:"image"`
	// Command replaces the image's entrypoint. Empty: the entrypoint is used.
	Command []string `json:"command,omitempty"`
	// Args are the provider's own arguments, --flag=value, in which ${clusterName}, ${podSubnet} and so on stand for
	// Values. One whose value is empty is left out. What every cloud-controller-manager needs (kubeconfigs, leader
	// election, cluster name, routes, cloud config) is added for all providers alike and need not be repeated.
	Args []string `json:"args,omitempty"`
	// Env are environment variables.
	Env []EnvVar `json:"env,omitempty"`
	// Mounts are directories of the machine that it reads.
	Mounts []Mount `json:"mounts,omitempty"`
}

// EnvVar is one environment variable. Exactly one of Value, Credential and Field says where it comes from.
type EnvVar struct {
	// Name is the variable's.
	Name string `json:"name"`
	// Value is a text like those of Args; where it comes out empty the variable is left out.
	Value string `json:"value,omitempty"`
	// Credential is the key of one of the provider's credentials, from the Secret; where that was not given the
	// variable is left out. Static pods cannot have it: their manifest would show the secret to all who may see pods.
	Credential string `json:"credential,omitempty"`
	// Field is a field of the pod, like spec.nodeName.
	Field string `json:"field,omitempty"`
}

// Mount is a directory of the machine, mounted read-only at the same path.
type Mount struct {
	// Path is absolute. It is made where it is missing.
	// +pattern=^/
	Path string `json:"path"`
	// Why says what the program does with it.
	Why string `json:"why"`
}

// Health is where a program says that it is alive, on the machine's loopback address.
type Health struct {
	// Scheme is HTTPS or HTTP. Default: HTTPS.
	// +pattern=^HTTPS?$
	Scheme string `json:"scheme,omitempty"`
	// Port is of the machine, since the pods use its network. Default: 10258.
	Port int32 `json:"port,omitempty"`
	// Path is that of the URL. Default: /healthz.
	Path string `json:"path,omitempty"`
}

// Port is one that a program takes from the machine.
type Port struct {
	// Name is at most 15 characters: metrics, webhook.
	Name string `json:"name"`
	// Port is its number.
	Port int32 `json:"port"`
}

// Agent is a program that runs on every node, cloud-controller-manager or not: a DaemonSet that tolerates everything.
type Agent struct {
	// Name is the DaemonSet's and its ServiceAccount's.
	Name string `json:"name"`
	// Why says what it does.
	Why string `json:"why"`
	// Container is the program.
	Container `json:",inline"`
	// RBAC is all that it may do.
	RBAC []Rule `json:"rbac,omitempty"`
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
	// Namespace grants it there only. Empty: in the whole cluster.
	Namespace string `json:"namespace,omitempty"`
	// When grants it only where it has a use: with a configuration file (Config), or with a feature in use (Lifecycle,
	// Services, Routes). Empty: always.
	When Condition `json:"when,omitempty"`
	// Why names the caller of these verbs.
	Why string `json:"why"`
}

// Condition is when a rule is granted.
type Condition string

// The conditions.
const (
	WhenConfig    Condition = "Config"
	WhenLifecycle Condition = "Lifecycle"
	WhenServices  Condition = "Services"
	WhenRoutes    Condition = "Routes"
)

// Holds says whether a rule under that condition is granted to the provider.
func (c Condition) Holds(p *Profile, v Values) bool {
	switch c {
	case WhenConfig:
		return v.hasConfig(p)
	case WhenLifecycle:
		return p.Has(Lifecycle) && v.NodeLifecycle
	case WhenServices:
		return p.Has(Services)
	case WhenRoutes:
		return v.Routes
	default:
		return true
	}
}
