package kubeadm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// kubeadmFlag is a flag of kubeadm and the field of its configuration that means the same. Flags without a field are
// those that kubeadm takes beside --config (k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/validation, isAllowedFlag).
type kubeadmFlag struct {
	name  string
	typ   string // as pflag names it
	kind  string
	field string // path with dots
	usage string
}

func flagsOf(role Role) []kubeadmFlag {
	both := []kubeadmFlag{
		{"node-name", "string", role.kind(), "nodeRegistration.name", "Specify the node name."},
		{"cri-socket", "string", role.kind(), "nodeRegistration.criSocket", "Path to the CRI socket to connect."},
		{"patches", "string", role.kind(), "patches.directory", "Path to a directory with patches for kubeadm's components."},
		{"skip-phases", "stringSlice", "", "", "List of phases to be skipped"},
		{"ignore-preflight-errors", "stringSlice", "", "", "A list of checks whose errors will be shown as warnings."},
		{"dry-run", "bool", "", "", "Don't apply any changes; just output what would be done."},
		{"v", "level", "", "", "number for kubeadm's log level verbosity"},
	}
	if role == RoleJoin {
		return append(joinFlags(), both...)
	}
	return append(initFlags(), both...)
}

func initFlags() []kubeadmFlag {
	initKind, cluster := RoleInit.kind(), clusterConfigKind
	return []kubeadmFlag{
		{"token", "string", initKind, "bootstrapTokens", "The token to use for establishing bidirectional trust between nodes and control-plane nodes."},
		{"token-ttl", "duration", initKind, "bootstrapTokens", "The duration before the token is automatically deleted. If set to '0', the token will never expire."},
		{"apiserver-advertise-address", "string", initKind, "localAPIEndpoint.advertiseAddress", "The IP address the API Server will advertise it's listening on."},
		{"apiserver-bind-port", "int32", initKind, "localAPIEndpoint.bindPort", "Port for the API Server to bind to."},
		{"certificate-key", "string", initKind, "certificateKey", "Key used to encrypt the control-plane certificates in the kubeadm-certs Secret."},
		{"kubernetes-version", "string", cluster, "kubernetesVersion", "Choose a specific Kubernetes version for the control plane."},
		{"control-plane-endpoint", "string", cluster, "controlPlaneEndpoint", "Specify a stable IP address or DNS name for the control plane."},
		{"pod-network-cidr", "string", cluster, "networking.podSubnet", "Specify range of IP addresses for the pod network."},
		{"service-cidr", "string", cluster, "networking.serviceSubnet", "Use alternative range of IP address for service VIPs."},
		{"service-dns-domain", "string", cluster, "networking.dnsDomain", "Use alternative domain for services."},
		{"apiserver-cert-extra-sans", "stringSlice", cluster, "apiServer.certSANs", "Optional extra Subject Alternative Names (SANs) for the API Server serving certificate."},
		{"cert-dir", "string", cluster, "certificatesDir", "The path where to save and store the certificates."},
		{"image-repository", "string", cluster, "imageRepository", "Choose a container registry to pull control plane images from"},
		{"feature-gates", "gates", cluster, "featureGates", "A set of key=value pairs that describe feature gates for various features."},
		{"upload-certs", "bool", "", "", "Upload control-plane certificates to the kubeadm-certs Secret."},
		{"skip-token-print", "bool", "", "", "Skip printing of the default bootstrap token."},
		{"skip-certificate-key-print", "bool", "", "", "Don't print the key used to encrypt the control-plane certificates."},
	}
}

func joinFlags() []kubeadmFlag {
	kind := RoleJoin.kind()
	return []kubeadmFlag{
		{"token", "string", kind, "", "Use this token for both discovery-token and tls-bootstrap-token when those values are not provided."},
		{"discovery-token", "string", kind, "discovery.bootstrapToken.token", "The token used to validate cluster information fetched from the API server."},
		{"discovery-token-ca-cert-hash", "stringSlice", kind, "discovery.bootstrapToken.caCertHashes", `Validate that the root CA public key matches this hash (format: "<type>:<value>").`},
		{"discovery-token-unsafe-skip-ca-verification", "bool", kind, "discovery.bootstrapToken.unsafeSkipCAVerification", "Allow joining without --discovery-token-ca-cert-hash pinning."},
		{"discovery-file", "string", kind, "discovery.file.kubeConfigPath", "A file or URL from which to load cluster information."},
		{"tls-bootstrap-token", "string", kind, "discovery.tlsBootstrapToken", "The token used to temporarily authenticate with the control plane while joining the node."},
		{"control-plane", "bool", kind, "", "Create a new control plane instance on this node"},
		{"apiserver-advertise-address", "string", kind, "controlPlane.localAPIEndpoint.advertiseAddress", "The IP address the API Server of a new control plane instance will advertise."},
		{"apiserver-bind-port", "int32", kind, "controlPlane.localAPIEndpoint.bindPort", "The port for the API Server of a new control plane instance to bind to."},
		{"certificate-key", "string", kind, "controlPlane.certificateKey", "Use this key to decrypt the certificate secrets uploaded by init."},
	}
}

// Flags declares the flags of `kubeadm init` or `kubeadm join`, but for --config.
func Flags(role Role) *pflag.FlagSet {
	flags := pflag.NewFlagSet("kubeadm "+string(role), pflag.ContinueOnError)
	flags.SortFlags = false
	for _, f := range flagsOf(role) {
		switch f.typ {
		case "bool":
			flags.Bool(f.name, false, f.usage)
		case "int32":
			flags.Int32(f.name, DefaultBindPort, f.usage)
		case "duration":
			flags.Duration(f.name, defaultTokenTTL, f.usage)
		case "stringSlice":
			flags.StringSlice(f.name, nil, f.usage)
		case "level":
			flags.StringP(f.name, f.name, "", f.usage)
		default:
			flags.String(f.name, "", f.usage)
		}
	}
	return flags
}

// ParseFlags reads arguments that stood behind --, or came from a program, into the flags of Flags.
func ParseFlags(role Role, flags *pflag.FlagSet, args []string) error {
	for _, arg := range args {
		if arg == "--config" || strings.HasPrefix(arg, "--config=") {
			return errors.New("read kubeadm's flags: --config belongs to ccmadm, which gives kubeadm its own")
		}
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags of kubeadm %s: %w", role, err)
	}
	switch {
	case role == RoleInit && flags.NArg() > 0:
		return fmt.Errorf("read the flags of kubeadm init: unexpected argument %q", flags.Arg(0))
	case flags.NArg() > 1:
		return fmt.Errorf("read the flags of kubeadm join: accepts at most 1 arg(s), received %d", flags.NArg())
	}
	return nil
}

// Common are kubeadm's flags that mean something to ccmadm too, which gives them to kubeadm itself.
type Common struct {
	DryRun                bool
	IgnorePreflightErrors []string
	// SkipPhases is nil where the flag was not given: then the file's own count.
	SkipPhases []string
}

// CommonFlags reads them.
func CommonFlags(flags *pflag.FlagSet) Common {
	var c Common
	if f := flags.Lookup("dry-run"); f.Changed {
		c.DryRun = f.Value.String() == "true"
	}
	for name, list := range map[string]*[]string{"ignore-preflight-errors": &c.IgnorePreflightErrors, "skip-phases": &c.SkipPhases} {
		if f := flags.Lookup(name); f.Changed {
			*list = f.Value.(pflag.SliceValue).GetSlice() // as Flags declares them
		}
	}
	return c
}

func isCommon(name string) bool {
	return name == "dry-run" || name == "ignore-preflight-errors" || name == "skip-phases"
}

// FoldFlags turns kubeadm's flags into documents of f, since kubeadm refuses them beside a --config, and ccmadm always
// gives it one. It returns the flags that kubeadm takes beside a --config, as --flag=value, but for those in Common.
func FoldFlags(role Role, f *File, flags *pflag.FlagSet) (rest []string, err error) {
	configured := slices.ContainsFunc(f.docs, func(d *document) bool { return d.Root != nil })
	var mixed []string
	for _, k := range flagsOf(role) {
		flag := flags.Lookup(k.name)
		switch {
		case !flag.Changed || isCommon(k.name):
		case k.kind == "":
			rest = append(rest, "--"+k.name+"="+flag.Value.String())
		case configured && k.name == "node-name":
			f.nodeName = flag.Value.String()
			rest = append(rest, "--node-name="+f.nodeName)
		case configured:
			mixed = append(mixed, k.name)
		}
	}
	if len(mixed) > 0 || configured && flags.NArg() > 0 {
		return nil, fmt.Errorf("can not mix '--config' with arguments %v", append(mixed, flags.Args()...))
	}
	if configured {
		return rest, nil
	}
	return rest, f.fold(role, flags)
}

// fold writes the documents.
func (f *File) fold(role Role, flags *pflag.FlagSet) error {
	docs := map[string]*yaml.RNode{}
	set := func(kind, path string, value *yaml.Node) error {
		if docs[kind] == nil {
			docs[kind] = yaml.NewMapRNode(nil)
		}
		return docs[kind].SetMapField(yaml.NewRNode(value), strings.Split(path, ".")...)
	}
	fields, err := fieldsOf(role, flags)
	if err != nil {
		return fmt.Errorf("read the flags of kubeadm %s: %w", role, err)
	}
	for _, field := range fields {
		if err := set(field.kind, field.path, field.value); err != nil {
			return fmt.Errorf("write kubeadm's %s: %w", field.kind, err)
		}
	}
	for _, kind := range []string{role.kind(), clusterConfigKind} {
		if docs[kind] == nil {
			continue
		}
		text, err := docs[kind].String()
		if err != nil {
			return fmt.Errorf("write kubeadm's %s: %w", kind, err)
		}
		if err := f.add(fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", v1beta4, kind, text)); err != nil {
			return err
		}
	}
	return nil
}
