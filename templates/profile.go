package templates

import (
	"fmt"
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
	// Supported: the provider is maintained, and releases for each minor version of Kubernetes or for all. One for the
	// newest may come weeks after Kubernetes: Image says which there are.
	Supported Status = "Supported"
	// BestEffort: it should work; the provider skips minor versions, or parts were never tried.
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

// NodeIPAM is when a program runs upstream's node-ipam-controller.
type NodeIPAM string

// When it runs, in the words of --controllers.
const (
	OnByDefault  NodeIPAM = "OnByDefault"
	OffByDefault NodeIPAM = "OffByDefault"
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
	// Ended is the day, like 2026-06-30, on which the service or its support ended. The status is then Deprecated, and Instead
	// names the successor.
	Ended string `json:"ended,omitempty"`
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
	// NodeIPAM says that the program has upstream's node-ipam-controller, which allocates pod CIDRs with --allocate-node-cidrs=true:
	// OnByDefault, or OffByDefault where --controllers has to name it. Empty: it has none, and that flag does nothing.
	NodeIPAM NodeIPAM `json:"nodeIPAM,omitempty"`
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

// Warning says why the profile should not be used, for preflight, render and lint. Empty: nothing speaks against it.
func (p *Profile) Warning() string {
	switch {
	case p.Ended != "":
		return fmt.Sprintf("provider %s ended on %s: use %s", p.Name, p.Ended, p.Instead)
	case p.Instead != "":
		return fmt.Sprintf("provider %s is %s: %s", p.Name, p.Status, p.Instead)
	}
	return ""
}

// Supports says whether the provider can run that way.
func (p *Profile) Supports(m Mode) bool { return slices.Contains(p.Modes, m) }

// Container is one program and how it is started.
type Container struct {
	// Image is where it comes from.
	Image Image `json:"image"`
	// Command replaces the image's entrypoint. Empty: the entrypoint is used.
	Command []string `json:"command,omitempty"`
	// Args are the provider's own arguments, --flag=value, in which ${clusterName}, ${podSubnet} and so on stand for
	// Values. One whose value is empty is left out. Arguments that every cloud-controller-manager needs (kubeconfigs,
	// leader election, cluster name, routes, cloud config) are added for all providers alike and need not be repeated.
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
	// RequiredKeys must be there when the file is: dotted paths, for ini "Section.key". "a or b" wants one of them.
	RequiredKeys []string `json:"requiredKeys,omitempty"`
	// Example is the smallest file that works, shown where one is missing or incomplete.
	Example string `json:"example,omitempty"`
	// Inventory is for a provider that serves the machines of a list.
	Inventory *Inventory `json:"inventory,omitempty"`
}

// Inventory is how a configuration file, which must be YAML, names a list of machines. The list is in one place for all
// control planes: copies of a file would differ some day.
type Inventory struct {
	// ConfigMap is the name of the one in kube-system that holds the list.
	ConfigMap string `json:"configMap"`
	// Key is the list's in the ConfigMap.
	Key string `json:"key"`
	// Setting is the key of the configuration file, a dotted path, that takes the name of the ConfigMap.
	Setting string `json:"setting"`
}

// Credential is one more file in the configuration's directory.
type Credential struct {
	// Key is the file's name.
	Key string `json:"key"`
	// Required says that the provider does not start without it.
	Required bool `json:"required,omitempty"`
	// Switch is the key of the configuration file that must be on, or the provider does not read this one even if it is named.
	Switch string `json:"switch,omitempty"`
	// Why says what the provider does with it.
	Why string `json:"why"`
}

// Image names a container image, and which release of it goes with which Kubernetes.
type Image struct {
	// Repository is the image without its tag. Empty: only the user can name the image.
	Repository string `json:"repository,omitempty"`
	// Tag is the one for every Kubernetes version. It may be ${version}, which is that of ccmadm.
	Tag string `json:"tag,omitempty"`
	// Tags are by Kubernetes minor version, like "1.36". Neither Tag nor Tags: only the user can name one.
	Tags map[string]string `json:"tags,omitempty"`
	// Rule says for people how releases follow those of Kubernetes.
	Rule string `json:"rule,omitempty"`
	// Late says, where Tags has none for the newest minor version, what was looked at, and when.
	Late string `json:"late,omitempty"`
}

// NodeRules say what a provider expects of a machine's kubelet. A node that breaks them is never found in the cloud:
// its taint stays, or it is taken for a machine that is gone, and deleted.
type NodeRules struct {
	// Name says for people what the node's name has to be.
	Name string `json:"name,omitempty"`
	// NameFrom are texts over the values of Metadata; the node's name has to be one of them, where * stands for any
	// letters. Empty: not checked.
	NameFrom []string `json:"nameFrom,omitempty"`
	// NamePattern is a regular expression that the node's name has to match. Empty: any name.
	NamePattern string `json:"namePattern,omitempty"`
	// AddressesFrom are texts over the values of Metadata that give addresses by which the cloud knows the machine, one
	// or several. A node IP that is none of them is warned of: if the cloud does not list it, the taint stays.
	AddressesFrom []string `json:"addressesFrom,omitempty"`
	// ProviderID says for people what a provider ID looks like.
	ProviderID string `json:"providerID,omitempty"`
	// ProviderIDFrom is a text over the values of Metadata that gives it. Empty: only the cloud knows.
	ProviderIDFrom string `json:"providerIDFrom,omitempty"`
	// KubeletProviderID says that the kubelet has to be started with --provider-id, for the provider finds the machine
	// by nothing else. It is then set from ProviderIDFrom unless the user has done so.
	KubeletProviderID bool `json:"kubeletProviderID,omitempty"`
}

// Metadata is an HTTP service at a link-local address, by which a machine learns who it is.
type Metadata struct {
	// URL is its address, without a path.
	URL string `json:"url"`
	// Headers are sent with each request.
	Headers map[string]string `json:"headers,omitempty"`
	// Token is fetched first, where the service wants one.
	Token *MetadataToken `json:"token,omitempty"`
	// Values are what can be learnt: a name, and the path that gives it. Behind a # stand the keys that lead to it in
	// a JSON answer: /v1.json#instance.id
	Values map[string]string `json:"values"`
}

// MetadataToken is a secret that a PUT request returns and that is sent with every later one.
type MetadataToken struct {
	// Path gives it.
	Path string `json:"path"`
	// Headers are sent with the PUT request.
	Headers map[string]string `json:"headers,omitempty"`
	// Header is the one that carries it.
	Header string `json:"header"`
}

// NodeAgent is the program of this project that runs on each node where it is asked for, and puts into effect what the
// cloud-controller-manager decides: addresses of load balancers, and routes to pods. The rest (the machine's
// network, NET_ADMIN, NET_RAW) is the same for every provider that has one.
type NodeAgent struct {
	// Image is where it comes from.
	Image Image `json:"image"`
	// RBAC is all that it may do.
	RBAC []Rule `json:"rbac"`
}
