package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names in the cluster and on a machine. They are a contract: other versions of ccmadm look for them
// (docs/adr/0012-names-on-the-wire.md).
const (
	// GroupName is the API group of our documents, and the prefix of our labels and annotations.
	GroupName = "ccmadm.dev"
	// APIVersion is that of all our documents and objects.
	APIVersion = GroupName + "/v1alpha1"
	// FieldManager is that of server-side apply, and the value of ManagedByLabel.
	FieldManager = "ccmadm"
	// Namespace is where all namespaced objects are.
	Namespace = metav1.NamespaceSystem
	// RecordName is the ConfigMap with the cluster's record, under RecordKey.
	RecordName = "ccmadm-config"
	// RecordKey is the key of the record in its ConfigMap.
	RecordKey = "record.yaml"
	// CloudConfigName is the Secret with the provider's configuration and credentials.
	CloudConfigName = "ccmadm-cloud-config"
	// AppliedName is the ConfigMap that lists the applied objects. FormerAppliedName is its name until November 2026: it
	// is read, too, and the next apply removes it.
	AppliedName       = "ccmadm-applied"
	FormerAppliedName = "ccmadm-inventory"
	// JournalName is the ConfigMap that says what runs of ccmadm have done to the cluster, and do. RunLeaseName is the
	// Lease of the run that is under way.
	JournalName  = "ccmadm-journal"
	RunLeaseName = "ccmadm-run"
	// JournalDigestAnnotation on the journal is a digest of what it says: one that was edited by hand is not acted upon.
	JournalDigestAnnotation = "ccmadm.dev/journal-digest"
	// RehearsalLabel is on all that a rehearsal in a pod makes. Its value is the name of its namespace, and of each of its
	// objects outside of that; RehearsalPrefix begins it.
	RehearsalLabel  = "ccmadm.dev/rehearsal"
	RehearsalPrefix = "ccmadm-rehearsal-"
	// ProbeLabel is on the pods that ask the network from Nodes. ProbeName is the Lease of the run that has made them, and begins
	// their names.
	ProbeLabel = "ccmadm.dev/probe"
	ProbeName  = "ccmadm-probe"
	// LBTestLabel is on all that `ccmadm lb test` makes. Its value is the ID of the run.
	LBTestLabel = "ccmadm.dev/lb-test"
	// LeaseName is the Lease of a cloud-controller-manager whose profile names no other.
	LeaseName = "cloud-controller-manager"
	// StaticPodUser is the name in the client certificate of a static pod.
	StaticPodUser = "system:cloud-controller-manager"
	// Prefix is that of cluster-wide objects' names, and the group of the applied set.
	Prefix = "ccmadm:"

	// CreateOnlyAnnotation on an object, true, keeps ccmadm from ever writing it again: a key that was made at random.
	CreateOnlyAnnotation = "ccmadm.dev/create-only"
	// AwaitedAnnotation is on a definition that is being deleted, and when its end was last waited for.
	AwaitedAnnotation = "ccmadm.dev/awaited"

	// FilesOfAnnotation on the Secret with a provider's files names the provider, while the cluster goes to another one.
	FilesOfAnnotation = "ccmadm.dev/files-of"
	// HashAnnotation is on pods: a digest of the provider's files, so that a change rolls them.
	HashAnnotation = "ccmadm.dev/config-hash"
	// KubeconfigHashAnnotation is on static pods: a digest of their identity, so that a renewed one starts them again.
	KubeconfigHashAnnotation = "ccmadm.dev/kubeconfig-hash"
	// ReplacedProxiesAnnotation is on pods whose extraEnv has proxy variables: one a line, NAME=value as it is without, or
	// NAME. What is not among them is the environment's.
	ReplacedProxiesAnnotation = "ccmadm.dev/replaced-proxies"
	// ManagedByLabel says whose an object is.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// NameLabel says what it is.
	NameLabel = "app.kubernetes.io/name"
	// ScraperLabel on a PodMonitor, with value ScraperOnNode, says that only a scraper with the network of the pod's node reaches it.
	ScraperLabel  = "ccmadm.dev/scraper"
	ScraperOnNode = "node"
	// ComponentLabel is on pods of a cloud-controller-manager, as kubeadm has it on the control plane's.
	ComponentLabel = "component"
	// Component is its value.
	Component = "cloud-controller-manager"

	// LoadBalancerFinalizer keeps a Service until its load balancer is gone: upstream's service controller sets it.
	LoadBalancerFinalizer = "service.kubernetes.io/load-balancer-cleanup"

	// LastGoodMachinesName is the ConfigMap with the last good inventory of the provider onprem, for its next process.
	LastGoodMachinesName = "ccmadm-machines-last-good"
	// LastGoodMachinesKey is the key of its document there, packed by gzip.
	LastGoodMachinesKey = "inventory.yaml.gz"
	// DroppedTaintsKey is the key there of taints that an inventory listed earlier and Nodes may still have, packed by gzip.
	DroppedTaintsKey = "dropped-taints.json.gz"
	// MachinesKey is the key of an inventory in a ConfigMap.
	MachinesKey = "inventory.yaml"
	// MachinesStateAnnotation on the last good inventory reports whether its source still confirms it.
	MachinesStateAnnotation = "ccmadm.dev/inventory-state"
	// MachinesStale is what its value begins with where the latest reading was rejected; the reason follows.
	MachinesStale = "Stale: "
	// MachinesTermAnnotation on it counts the processes that have led: an earlier leader does not replace the copy of a later one.
	MachinesTermAnnotation = "ccmadm.dev/inventory-term"
	// DeletionsAnnotation on it says when which Nodes were deleted lately, for the budget of the next process.
	DeletionsAnnotation = "ccmadm.dev/machines-deleted"
	// MachineLabel on a Node names the listed machine that it is, and RackLabel its rack.
	MachineLabel = "ccmadm.dev/machine"
	RackLabel    = "ccmadm.dev/rack"
	// FollowedLabelsAnnotation on a Node lists the other labels that follow the inventory.
	FollowedLabelsAnnotation = "ccmadm.dev/inventory-labels"
	// MaintenanceTaint is on Nodes of machines in maintenance, with effect NoSchedule.
	MaintenanceTaint = "ccmadm.dev/maintenance"
	// MaintenanceReason is that of condition MaintenanceInProgress of such Nodes. With another reason it is another's.
	MaintenanceReason = "InventoryMaintenance"
	// SerialAnnotation and MACsAnnotation are where something on the machine, or an operator, adds to what the kubelet
	// shows of it.
	SerialAnnotation = "ccmadm.dev/serial"
	MACsAnnotation   = "ccmadm.dev/macs"

	// UninitializedTaint and ShutdownTaint are from k8s.io/cloud-provider/api, whose other packages would come with it.
	UninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
	ShutdownTaint      = "node.cloudprovider.kubernetes.io/shutdown"
	// AutoscalerTaint is on Nodes that the cluster autoscaler is about to remove.
	AutoscalerTaint = "ToBeDeletedByClusterAutoscaler"
	// ProvidedNodeIPAnnotation is where a kubelet repeats its --node-ip.
	ProvidedNodeIPAnnotation = "alpha.kubernetes.io/provided-node-ip"
	// PurgeAnnotation on a Node asks its machine to leave external cloud mode, or to remove all that is ccmadm's there, too. It takes
	// it away when it has.
	PurgeAnnotation = "ccmadm.dev/purge"
	// ReleaseAnnotation on a control plane's Node is the release of the ccmadm that has worked there last.
	ReleaseAnnotation = "ccmadm.dev/release"
	// NodeUserPrefix is before a Node's name in that of its kubelet's user.
	NodeUserPrefix = "system:node:"
	// ControlPlaneLabel is what kubeadm gives to control planes, with an empty value.
	ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

	// ClaimManager is the value of label ipaddress.kubernetes.io/managed-by on IPAddress objects, each of which is the
	// claim of one address by the Service of its parentRef. Only the cloud-controller-manager writes them, so agents trust
	// them, and not annotations of Services.
	ClaimManager = "lb.ccmadm.dev"
	// ClaimPoolAnnotation and ClaimLevelAnnotation on a claim name the AddressPool and the level, L2 or BGP.
	ClaimPoolAnnotation  = "ccmadm.dev/pool"
	ClaimLevelAnnotation = "ccmadm.dev/level"
	// ClaimSharersAnnotation on a claim lists further Services of the address, NAMESPACE/NAME with commas, in the order in which
	// they came to it.
	ClaimSharersAnnotation = "ccmadm.dev/sharers"
	// ClaimParentLeftAnnotation on a claim, true, says that the Service of its parentRef, which cannot change, has left the
	// address: only the sharers have it. If it has come back since, it is one of them.
	ClaimParentLeftAnnotation = "ccmadm.dev/parent-left"
	// ClaimProbedAnnotation on a claim is the time since when the address is known to be free on the network: the next owner
	// announces it without another probe.
	ClaimProbedAnnotation = "ccmadm.dev/probed"
	// ClaimReleasedAnnotation on a claim is the time since when it is only reserved for the Service that had it. Agents do not announce it.
	ClaimReleasedAnnotation = "ccmadm.dev/released"

	// ClaimLeaseAnnotation on a claim is under what the IPAM of an AddressPool has the address: POOL/UID, with the UID of a Service. With a
	// comma and a second one it is asked to have it under that instead. It is written before the IPAM is asked, and the claim is deleted once
	// the IPAM has released all.
	ClaimLeaseAnnotation = "ccmadm.dev/ipam"
	// AskedCondition of a Service lists in its message where an IPAM may have an address for the Service that no claim has:
	// POOL/FAMILY, with commas. It is written before the IPAM is asked, and removed after the IPAM has released the address or a claim has it.
	AskedCondition = "ccmadm.dev/AskedIPAM"

	// AgentSilentAnnotation on a NodeAgent is the renewTime of the report after which the cloud-controller-manager has
	// received no report of the agent for five minutes. See [NodeAgent.Silent].
	AgentSilentAnnotation = "ccmadm.dev/silent-since"

	// AllocatedAnnotation on a Service repeats its addresses, with commas: it survives a lost status, and a restore into
	// another cluster. It is a wish there, not a proof.
	AllocatedAnnotation = "ccmadm.dev/allocated"
	// EgressLabel on a Service, true, lets packets of its pods leave the cluster with its address, at level L2. A label, since the
	// EndpointSlices of the Service have it, too.
	EgressLabel = "ccmadm.dev/egress"
	// PoolAnnotation on a Service names the AddressPool it wants.
	PoolAnnotation = "ccmadm.dev/address-pool"
	// AddressesAnnotation on a Service lists the addresses it wants.
	AddressesAnnotation = "ccmadm.dev/addresses"
	// ShareKeyAnnotation on Services lets those with the same value share an address: those of one namespace, and those of
	// namespaces that ShareNamespacesAnnotation names on both sides.
	ShareKeyAnnotation = "ccmadm.dev/share-key"
	// ShareNamespacesAnnotation on a Service lists the other namespaces, with commas, whose Services may have its address, if
	// their key is the same and they list its namespace as well. See [ParseShareNamespaces].
	ShareNamespacesAnnotation = "ccmadm.dev/share-namespaces"
	// MoveToAnnotation on a Service lists which of its addresses which other Service may take over, ADDRESS=NAMESPACE/NAME with
	// commas, if that one asks for the address. See [ParseMoveTo].
	MoveToAnnotation = "ccmadm.dev/move-to"
	// LevelAnnotation on a Service is NodeIP, where pools would serve it.
	LevelAnnotation = "ccmadm.dev/level"
	// ReassignAnnotation on a Service, true, gives it another address once: a pool's edit never does. It is removed then,
	// and where the Service has none.
	ReassignAnnotation = "ccmadm.dev/reassign"
	// PortsAnnotation on a Service of level NodeIP, "any", takes ports that a Node could need for itself, in a Namespace with
	// PortsLabel.
	PortsAnnotation = "ccmadm.dev/node-ports"
	// PortsLabel on a Namespace, "allow", permits PortsAnnotation to its Services.
	PortsLabel = "ccmadm.dev/reserved-ports"
	// NodePortsPolicyName is that of the admission policy, and of its binding, which keeps ReservedNodePorts from Services
	// that are published with addresses of Nodes.
	NodePortsPolicyName = "ccmadm-node-ports"
	// ExternalIPsPolicyName is that of the admission policy, and of its binding, which denies new externalIPs of Services.
	ExternalIPsPolicyName = "ccmadm-external-ips"
	// ExternalIPsLabel on a Namespace, "allow", permits externalIPs to its Services.
	ExternalIPsLabel = "ccmadm.dev/external-ips"
	// LoadBalancerClass is the one that is served beside none.
	LoadBalancerClass = "ccmadm.dev/lb"
	// LoadBalancerReady is the condition on a Service: True when its address is announced.
	LoadBalancerReady = "ccmadm.dev/LoadBalancerReady"

	// AgentName is that of the DaemonSet, its ServiceAccount, and its Secret with the key of heartbeats.
	AgentName = "ccmadm-node-agent"
	// AgentReaderLease is the Lease in Namespace that a cloud-controller-manager renews every 5 seconds as long as it watches
	// NodeAgentLeases and NodeAnnouncements: without it agents write all into their NodeAgents, for a manager of an earlier release.
	AgentReaderLease = "ccmadm-node-agent-reader"
	// HeartbeatKey is the key in the Secret.
	HeartbeatKey = "heartbeat"
	// BGPSecretName is the Secret with passwords of BGPPeers.
	BGPSecretName = "ccmadm-bgp"
	// HookSecretName is the Secret with tokens of hooks of AddressPools.
	HookSecretName = "ccmadm-hooks"
	// IPAMSecretName is the Secret with tokens of the IPAMs of AddressPools.
	IPAMSecretName = "ccmadm-ipam"
	// DrainLabel on a Node, true, lets its agent give away what it announces.
	DrainLabel = "ccmadm.dev/drain"
	// ExcludeLabel is from k8s.io/api, which calls it LabelNodeExcludeBalancers.
	ExcludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	// RouteProtocol marks routes that are ours in the kernel (rtnetlink's rtm_protocol); no others are touched.
	RouteProtocol = 158
	// HeartbeatPort is the UDP port on which agents exchange heartbeats. No program listens on the TCP port of this number:
	// a refused connection proves that the machine is up.
	HeartbeatPort = 10391
	// MachineUnreachable is why a pod is not Ready whose machine is gone.
	MachineUnreachable = "MachineUnreachable"
	// EndpointPolicyName is the name of the policy that limits what the manager may write to pods, and of its binding.
	EndpointPolicyName = "ccmadm-endpoints"
	// VIPName is that of the static pod that holds the control plane's own address, and VIPHeartbeatPort the UDP port on
	// which those of several control planes hear each other.
	VIPName          = "ccmadm-vip"
	VIPHeartbeatPort = 10393
)
