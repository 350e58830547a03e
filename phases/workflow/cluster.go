package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
)

// KubeconfigPath is the kubeconfig that the user named, or else one of the machine's.
func KubeconfigPath(env *Env, path string) string {
	if env.Kubeconfig != "" {
		return env.Kubeconfig
	}
	return env.Machine.Path(path)
}

// RESTConfig is the client configuration of a kubeconfig of the machine, or of the one that the user named.
func RESTConfig(env *Env, path string) (*rest.Config, error) {
	config, err := clientConfig(env, path)
	if err != nil {
		return nil, unreadable(env, path, err)
	}
	// The server's priority and fairness is the better limit: one of the client ends a request with its own words before the deadline.
	config.QPS = -1
	config.UserAgent = "ccmadm/" + env.Version
	return config, nil
}

// clientConfig is that of the kubeconfig that the user named, or else of the machine's, whose files are below its root.
func clientConfig(env *Env, path string) (*rest.Config, error) {
	var config *clientcmdapi.Config
	var err error
	if env.Kubeconfig != "" {
		config, err = (&clientcmd.ClientConfigLoadingRules{ExplicitPath: env.Kubeconfig}).Load()
	} else {
		config, err = identity.Kubeconfig(env.Machine, path)
	}
	if err != nil {
		return nil, err
	}
	if _, err := identity.ServerOf(config); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
}

// unreadable says what to do about a kubeconfig that leads to no cluster.
func unreadable(env *Env, path string, err error) error {
	file := KubeconfigPath(env, path)
	switch {
	case env.Kubeconfig != "":
		return finding.Usagef("load kubeconfig %s: %w", file, err).WithHint("--kubeconfig names another one")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return finding.Errorf("load kubeconfig %s: %w", file, err).WithHint("root can read it, on a control plane")
	}
	hint := "a copy of it; or kubeadm reset and ccmadm join, since nothing rewrites a kubelet's"
	switch path {
	case machine.AdminConf:
		hint = "move it away; kubeadm init phase kubeconfig admin, with --config as at init, writes it again"
	case machine.SuperAdminConf:
		hint = "move it away; kubeadm init phase kubeconfig super-admin, with --config as at init, writes it again"
	}
	return finding.Errorf("load kubeconfig %s: %w", file, err).WithHint("%s", hint)
}

// Connect is a client with a kubeconfig of the machine, or with the one that the user named.
func Connect(env *Env, path string) (*kubernetes.Clientset, error) {
	config, err := RESTConfig(env, path)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect with %s: %w", path, err)
	}
	return client, nil
}

// ApplyTimeout bounds the retries while an API server is coming up or restarting.
const ApplyTimeout = 2 * time.Minute

// ApplySet brings a set of objects to the cluster, or in a dry run shows what it would change.
func ApplySet(ctx context.Context, env *Env, set apply.Set, path string, objects []*manifests.Object) error {
	applier, err := NewApplier(env, path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ApplyTimeout)
	defer cancel()
	changes, err := applier.Apply(ctx, set, objects)
	for _, c := range changes {
		SayChange(env, c)
		env.NoteChange(c.Differs())
		env.seen.conflict = cmp.Or(env.seen.conflict, c.Conflict)
	}
	var conflict *apply.ConflictError
	if errors.As(err, &conflict) {
		return &finding.Error{Code: finding.ExitRefused, Err: err, Hint: conflict.Hint()}
	}
	if leaving := new(apply.LeavingError); errors.As(err, &leaving) {
		return finding.Errorf("%w", err).WithHint("%s", leaving.Hint())
	}
	return err
}

// SayChange tells what became of an object. What a dry run would do, its printer has shown.
func SayChange(env *Env, c apply.Change) {
	switch {
	case c.Unchanged():
		env.SayUnchanged(c.Subject)
	case !env.DryRun || !c.Differs():
		env.Sayf("%s", c)
	}
}

// NewApplier is the server's, or a printer. A dry run on a machine that has no cluster yet prints whole objects.
func NewApplier(env *Env, path string) (apply.Applier, error) {
	if env.DryRun {
		if _, err := os.Stat(KubeconfigPath(env, path)); errors.Is(err, fs.ErrNotExist) && env.Kubeconfig == "" {
			return apply.NewPrinter(nil, env.Out)
		}
	}
	config, err := RESTConfig(env, path)
	if err != nil {
		return nil, err
	}
	if env.DryRun {
		printer, err := apply.NewPrinter(config, env.Out)
		if err == nil && (env.Existing || env.Preview) {
			printer.Existing(env.Force)
		}
		return printer, err
	}
	return apply.NewCluster(config, env.Force)
}

// BootstrapConf is the strongest kubeconfig there is: until kubeadm's second half binds the administrators' group,
// admin.conf may do nothing (kubernetes/kubernetes#121305).
func BootstrapConf(m *machine.Machine) string {
	if there, err := m.Exists(machine.SuperAdminConf); err == nil && there {
		return machine.SuperAdminConf
	}
	return machine.AdminConf
}

// NodeConf is the kubeconfig with which this machine may look at its own Node.
func NodeConf(h *Host) string {
	if IsControlPlane(h) {
		return machine.AdminConf
	}
	return machine.KubeletConf
}

// ControlPlaneURL is the server of a kubeconfig that kubeadm has written.
func ControlPlaneURL(path string) (string, error) {
	config, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", finding.Errorf("find the control-plane endpoint: %w", err).
			WithHint("this phase comes after `ccmadm init phase kubeadm-control-plane`")
	}
	if err != nil {
		return "", fmt.Errorf("find the control-plane endpoint: %w", err)
	}
	return ServerOf(config, path)
}

// ServerOf is the server of a kubeconfig's current context. Path names it in errors.
func ServerOf(config *clientcmdapi.Config, path string) (string, error) {
	server, err := identity.ServerOf(config)
	if err != nil {
		return "", fmt.Errorf("find the control-plane endpoint in %s: %w", path, err)
	}
	return server, nil
}

// FindKubeconfig follows kubectl, and prefers the administrator's on a control plane to the user's own.
func FindKubeconfig(named string, env func(string) string) string {
	if named != "" {
		return named
	}
	if path := env(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		return path
	}
	if _, err := os.Stat(machine.AdminConf); err == nil {
		return machine.AdminConf
	}
	return filepath.Join(env("HOME"), clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
}

// LocalServer is this machine's API server, as in the kubeconfigs that kubeadm gives to the scheduler and the
// controller manager: a control plane must not need a load balancer that may wait for it.
func LocalServer(h *Host) string {
	// What kubeadm gave them is right whatever this run was told: it may be a second one, without the first one's flags.
	if server, err := ControlPlaneURL(h.Machine.Path(machine.ControllerManagerConf)); err == nil {
		return server
	}
	host := h.KubeadmFile.AdvertiseAddress(h.Role)
	if addr, err := h.Machine.AdvertiseAddress(host); err == nil {
		host = addr.String()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(APIServerPort(h)))
}

// AdminClient is the administrator's, on a control plane.
func AdminClient(env *Env) (*kubernetes.Clientset, error) {
	if err := refuseWithoutCluster(env.Machine); err != nil {
		return nil, err
	}
	return Connect(env, machine.AdminConf)
}

// KubeadmConfigName is the ConfigMap in which kubeadm keeps its live configuration, and clusterConfigKey the key.
const (
	KubeadmConfigName = "kubeadm-config"
	ClusterConfigKey  = "ClusterConfiguration"
)

// LiveKubeadm is the configuration that kubeadm keeps in the cluster.
func LiveKubeadm(ctx context.Context, client kubernetes.Interface) (*kubeadm.File, error) {
	cm, err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, KubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read kubeadm's live configuration: %w", err)
	}
	return kubeadm.Parse("ConfigMap/"+v1alpha1.Namespace+"/"+KubeadmConfigName, []byte(cm.Data[ClusterConfigKey]))
}

// NodeOfKubelet is the Node of this machine by its kubelet's certificate, empty where it cannot be read.
func NodeOfKubelet(m *machine.Machine) string {
	name, _ := identity.NodeOfKubelet(m)
	return name
}

// APIServerPort is that of this machine's API server.
func APIServerPort(h *Host) int {
	return cmp.Or(h.KubeadmFile.BindPort(h.Role), kubeadm.DefaultBindPort)
}
