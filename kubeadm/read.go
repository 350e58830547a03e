package kubeadm

import (
	"cmp"
	"path"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// BootstrapDiscovery is how a machine finds the cluster with a bootstrap token.
type BootstrapDiscovery struct {
	Token                    string
	Endpoint                 string
	CACertHashes             []string
	UnsafeSkipCAVerification bool
	// Timeout is how long the user lets discovery take; 0: it is not said.
	Timeout time.Duration
}

// NodeName follows kubeadm: a hostname-override among the kubelet's arguments, --node-name, nodeRegistration.name.
// It is empty when the host name is used.
func (f *File) NodeName(role Role) string {
	if name, ok := f.KubeletArg(role, "hostname-override"); ok && name != "" {
		return name
	}
	if f.nodeName != "" {
		return f.nodeName
	}
	return f.text(role.kind(), "nodeRegistration", "name")
}

// KubeletArg returns the value of a kubelet argument. Of several the last wins, as on the kubelet's command line.
func (f *File) KubeletArg(role Role, name string) (value string, ok bool) {
	for _, a := range extraArgs(f.value(role.kind(), "nodeRegistration", "kubeletExtraArgs")) {
		if a.name == name {
			value, ok = a.value, true
		}
	}
	return value, ok
}

// AdvertiseAddress is what this machine's API server advertises.
func (f *File) AdvertiseAddress(role Role) string {
	return f.text(role.kind(), localEndpoint(role, "advertiseAddress")...)
}

// BindPort is the port of this machine's API server, 0 when it is not set.
func (f *File) BindPort(role Role) int {
	port, err := strconv.Atoi(f.text(role.kind(), localEndpoint(role, "bindPort")...))
	if err != nil {
		return 0 // kubeadm reports what is no number
	}
	return port
}

func localEndpoint(role Role, field string) []string {
	if role == RoleJoin {
		return []string{"controlPlane", "localAPIEndpoint", field}
	}
	return []string{"localAPIEndpoint", field}
}

// SkipPhases are the phases that kubeadm leaves out.
func (f *File) SkipPhases(role Role) []string { return f.list(role.kind(), "skipPhases") }

// Taints are the keys of those that the kubelet is told to register with, here or in a KubeletConfiguration.
func (f *File) Taints(role Role) []string {
	lists := []*yaml.Node{f.value(role.kind(), "nodeRegistration", "taints")}
	for _, d := range f.docs {
		if d.kind == "KubeletConfiguration" {
			lists = append(lists, edit.Resolve(edit.Lookup(d.Root, "registerWithTaints")))
		}
	}
	var keys []string
	for _, n := range lists {
		if n == nil || n.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range n.Content {
			keys = append(keys, edit.Scalar(edit.Lookup(item, "key")))
		}
	}
	return keys
}

// ImageRepository is where kubeadm pulls the control plane's images from; empty for its default.
func (f *File) ImageRepository() string { return f.text(clusterConfigKind, "imageRepository") }

// HasConfiguration tells whether there is a document that the role reads: kubeadm refuses a file without any.
func (f *File) HasConfiguration(role Role) bool {
	return f.document(role.kind()) != nil || role == RoleInit && f.document(clusterConfigKind) != nil
}

// Kinds are those of all documents, in their order.
func (f *File) Kinds() []string {
	var kinds []string
	for _, d := range f.docs {
		if d.kind != "" {
			kinds = append(kinds, d.kind)
		}
	}
	return kinds
}

// PodSubnet is networking.podSubnet.
func (f *File) PodSubnet() string { return f.text(clusterConfigKind, "networking", "podSubnet") }

// CertificatesDir is the directory of the CA.
func (f *File) CertificatesDir() string { return f.text(clusterConfigKind, "certificatesDir") }

// KubernetesVersion is the version that kubeadm init installs.
func (f *File) KubernetesVersion() string {
	return f.text(clusterConfigKind, "kubernetesVersion")
}

// Minor is the minor version that kubeadm init installs, as 37. Labels have it in their names, as stable-1.37; of others, such as
// stable, only the internet knows.
func (f *File) Minor() (minor int, known bool) {
	said := path.Base(f.KubernetesVersion()) // a label may have a bucket in front: ci/latest-1.37
	for _, form := range []string{said, said[strings.LastIndexByte(said, '-')+1:]} {
		if minor, known = minorOf(form); known {
			break
		}
	}
	return minor, known
}

// minorOf is the minor version of a text, as 37.
func minorOf(text string) (minor int, known bool) {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return 0, false
	}
	return int(v.Minor()), true
}

// ControlPlaneEndpoint is HOST:PORT or HOST by which all reach the control plane; empty if it has none.
func (f *File) ControlPlaneEndpoint() string {
	return f.text(clusterConfigKind, "controlPlaneEndpoint")
}

// ClusterName is kubeadm's name for the cluster.
func (f *File) ClusterName() string { return f.text(clusterConfigKind, "clusterName") }

// JoinsControlPlane tells whether kubeadm join makes this machine a control plane.
func (f *File) JoinsControlPlane() bool {
	v := f.value(RoleJoin.kind(), "controlPlane")
	return v != nil && !edit.IsNull(v)
}

// JoinEndpoint is the API server that discovery with a token asks.
func (f *File) JoinEndpoint() string { return f.BootstrapDiscovery().Endpoint }

// CanDiscover tells whether the file says how to find the cluster.
func (f *File) CanDiscover() bool { return f.JoinEndpoint() != "" || f.DiscoveryFile() != "" }

// DiscoveryFile is the kubeconfig that discovery reads.
func (f *File) DiscoveryFile() string {
	return f.text(RoleJoin.kind(), "discovery", "file", "kubeConfigPath")
}

// TLSBootstrapToken is the token that the kubelet asks for its certificate with.
func (f *File) TLSBootstrapToken() string {
	return f.text(RoleJoin.kind(), "discovery", "tlsBootstrapToken")
}

// BootstrapDiscovery is discovery.bootstrapToken.
func (f *File) BootstrapDiscovery() BootstrapDiscovery {
	path := func(field string) []string { return []string{"discovery", "bootstrapToken", field} }
	kind := RoleJoin.kind()
	return BootstrapDiscovery{
		Token:                    f.text(kind, path("token")...),
		Endpoint:                 f.text(kind, path("apiServerEndpoint")...),
		CACertHashes:             f.list(kind, path("caCertHashes")...),
		UnsafeSkipCAVerification: strings.EqualFold(f.text(kind, path("unsafeSkipCAVerification")...), "true"),
		Timeout:                  f.discoveryTimeout(),
	}
}

// discoveryTimeout is timeouts.discovery, in v1beta3 discovery.timeout. What is no duration is left to kubeadm, which refuses it.
func (f *File) discoveryTimeout() time.Duration {
	kind := RoleJoin.kind()
	d, err := time.ParseDuration(cmp.Or(f.text(kind, "timeouts", "discovery"), f.text(kind, "discovery", "timeout")))
	if err != nil {
		return 0
	}
	return d
}

// value follows the path through aliases and merge keys; nil when there is nothing.
func (f *File) value(kind string, path ...string) *yaml.Node {
	d := f.document(kind)
	if d == nil {
		return nil
	}
	n := d.Root
	for _, key := range path {
		n = edit.Lookup(n, key)
	}
	return edit.Resolve(n)
}

func (f *File) text(kind string, path ...string) string {
	return edit.Scalar(f.value(kind, path...))
}

func (f *File) list(kind string, path ...string) []string {
	n := f.value(kind, path...)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var items []string
	for _, item := range n.Content {
		items = append(items, edit.Scalar(item))
	}
	return items
}
