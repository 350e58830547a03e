// Package manifeststest runs a real control plane for tests: etcd and kube-apiserver on loopback, with TLS and the
// authorizers of a kubeadm cluster, and no controllers. It is to client-go what net/http/httptest is to net/http.
//
// Start at [Main], once per package:
//
//	func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &cluster)) }
//
// Reads: the binaries that `go run ./test/lab build` makes, from the user's cache directory; where there are none,
// those in the directory that KUBEBUILDER_ASSETS names. Without them it fails, and says so; [LeaveOut] asks first.
// Writes: temporary directories, gone after Stop. Every Start is a new and empty cluster.
package manifeststest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Config is that of an administrator, a member of system:masters.
	Config *rest.Config

	env         *envtest.Environment
	controllers []*Controllers
}

// lab names what the lab's programs are made of. `make unit` has the linker set it: the result of a test binary that ran against
// others is not one of this binary.
var lab = "any" //nolint:gochecknoglobals // the linker sets it

// Start runs a control plane of the newest version there is. The flags, --name=value, are added to kube-apiserver's.
func Start(flags ...string) (*ControlPlane, error) { return StartVersion("", flags...) }

// StartVersion runs a control plane of a minor version, like 1.35.
func StartVersion(minor string, flags ...string) (*ControlPlane, error) {
	// The time is for a machine that is busy with other tests; what does not start says so at once.
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	env.ControlPlane.Etcd = &envtest.Etcd{}
	env.ControlPlane.GetAPIServer().Path, env.ControlPlane.Etcd.Path = binaries(minor)
	args := env.ControlPlane.GetAPIServer().Configure()
	args.Set("authorization-mode", "Node", "RBAC").
		Append("enable-admission-plugins", "NodeRestriction").
		Set("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname")
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		args.Set(name, value)
	}
	cfg, err := env.Start()
	if err != nil {
		err = errors.Join(err, env.Stop()) // else etcd outlives a kube-apiserver that did not start
		return nil, fmt.Errorf("start a control plane (`go run ./test/lab build` makes its binaries; test/lab: %s): %w", lab, err)
	}
	return &ControlPlane{Config: cfg, env: env}, nil
}

// binaries returns the lab's kube-apiserver and etcd of the minor, or of the newest. Empty: envtest has its own places
// to look.
func binaries(minor string) (apiServer, etcd string) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", ""
	}
	found, err := filepath.Glob(filepath.Join(cache, "ccmadm-lab", "kubernetes-"+minor+"*", "kube-apiserver"))
	found = slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(filepath.Dir(path), ".new") }) // being built
	if err != nil || len(found) == 0 {
		return "", ""
	}
	apiServer = slices.Max(found)
	return apiServer, filepath.Join(filepath.Dir(apiServer), "server") // etcd's module calls its command so
}

// HaveBinaries reports whether Start has something to start.
func HaveBinaries() bool {
	apiServer, _ := binaries("")
	if apiServer == "" { // then envtest looks where its users have them
		apiServer = filepath.Join(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), "/usr/local/kubebuilder/bin"), "kube-apiserver")
	}
	_, err := os.Stat(apiServer)
	return err == nil
}

// User returns the configuration of somebody with a client certificate.
func (c *ControlPlane) User(name string, groups ...string) (*rest.Config, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return user.Config(), nil
}

// Admin is a client that may do everything. It ends the test where there can be none.
func (c *ControlPlane) Admin(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Kubectl is the path of the lab's kubectl of the newest minor.
func Kubectl() (string, error) {
	apiServer, _ := binaries("")
	path := filepath.Join(filepath.Dir(apiServer), "kubectl")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find kubectl (`go run ./test/lab build` makes it): %w", err)
	}
	return path, nil
}

// Kubeconfig returns the same as a file's content.
func (c *ControlPlane) Kubeconfig(name string, groups ...string) ([]byte, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return user.KubeConfig()
}

// Stop ends all processes and removes what they wrote.
func (c *ControlPlane) Stop() error {
	var err error
	for _, started := range c.controllers {
		started.kill()
		err = errors.Join(err, os.RemoveAll(started.dir))
	}
	return errors.Join(err, c.env.Stop())
}
