package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// RenewCertificates signs a new identity for this machine's static pod, and has the kubelet start the pod again with
// it. Within is how near its end has to be, or the file has to have another flaw; zero: it is renewed in any case. It
// asks this machine alone: an API server that is down keeps no certificate from being renewed.
func RenewCertificates(ctx context.Context, env *workflow.Env, within time.Duration) error {
	env = env.InPhase("certs")
	if err := ctx.Err(); err != nil {
		return err
	}
	if !env.Machine.Superuser {
		return workflow.ErrNotRoot("renew certificates")
	}
	if err := hasIdentity(env.Machine); err != nil {
		return err
	}
	certsDir, err := identity.CertificatesDir(env.Machine)
	if err != nil {
		return err
	}
	server, err := serverOfIdentity(env.Machine)
	if err != nil {
		return err
	}
	external, err := identity.ExternalCA(env.Machine, certsDir)
	if err != nil {
		return err
	}
	wanted := server
	if external {
		wanted = "" // the administrator's own
	}
	if !external && identity.Theirs(env.Machine) {
		return keepTheirs(env, certsDir, within)
	}
	path, ca := env.Machine.Path(machine.CCMKubeconfig), env.Machine.Path(filepath.Join(certsDir, "ca.crt"))
	flaw := identity.Flaw(path, ca, wanted, env.Machine.Now().Add(within))
	switch {
	case flaw == nil && within > 0:
		env.Sayf("%s unchanged: it lasts for more than %s", machine.CCMKubeconfig, within)
		return RestampStaticPod(env) // it may have been replaced by hand, or by a run that was cut short
	case external:
		return refuseExternal(certsDir, external)
	case within > 0:
		env.Sayf("%s is renewed: %v", machine.CCMKubeconfig, flaw)
	}
	return newIdentity(env, env.Machine.Path(certsDir), server)
}

// keepTheirs has an identity of the administrator's trust the CAs of today, and is no reason to write another one.
func keepTheirs(env *workflow.Env, certsDir string, within time.Duration) error {
	theirs, changed, err := trustCAs(env, env.Machine.Path(filepath.Join(certsDir, "ca.crt")))
	if err != nil {
		return err
	}
	path, ca := env.Machine.Path(machine.CCMKubeconfig), env.Machine.Path(filepath.Join(certsDir, "ca.crt"))
	if !changed && (within == 0 || identity.Flaw(path, ca, "", env.Machine.Now().Add(within)) != nil) {
		return refuseExternal(certsDir, false)
	}
	env.Sayf("%s has a token or files of yours, which are kept", machine.CCMKubeconfig)
	return restamp(env, theirs)
}

// trustCAs gives the bundle to the kubeconfig of the static pod, and leaves the rest of it. It returns the file as it then is, in a dry
// run too.
func trustCAs(env *workflow.Env, ca string) (text []byte, changed bool, err error) {
	bundle, err := os.ReadFile(ca)
	if err != nil {
		return nil, false, fmt.Errorf("read the cluster's CA: %w", err)
	}
	data, err := env.Machine.Read(machine.CCMKubeconfig)
	if err != nil {
		return nil, false, fmt.Errorf("read an identity: %w", err)
	}
	if text, err = identity.WithCAs(data, bundle); err != nil || text == nil {
		return data, false, err
	}
	return text, true, env.Write(machine.File{Path: machine.CCMKubeconfig, Data: text, Mode: 0o600, Opaque: true})
}

// hasIdentity wants a static pod here, or the kubeconfig of one. What cannot be read is a flaw, and is renewed.
func hasIdentity(m *machine.Machine) error {
	if there, err := m.Exists(machine.CCMKubeconfig); err != nil || there {
		return err
	}
	if there, err := m.Exists(machine.CCMManifest); err != nil || there {
		return err
	}
	return finding.Preflightf("renew certificates: this machine has none of ccmadm's").
		WithHint("they are on control planes whose cloud-controller-manager is a static pod; in the other modes it has a " +
			"token, which the kubelet renews. Those of kubeadm: kubeadm certs renew all")
}

// serverOfIdentity is the one that kubeadm has given to kube-controller-manager, or else what the identity has.
func serverOfIdentity(m *machine.Machine) (string, error) {
	server, err := workflow.ControlPlaneURL(m.Path(machine.ControllerManagerConf))
	if err == nil {
		return server, nil
	}
	config, loadErr := clientcmd.LoadFromFile(m.Path(machine.CCMKubeconfig))
	if loadErr != nil {
		return "", err
	}
	return workflow.ServerOf(config, machine.CCMKubeconfig)
}

func refuseExternal(certsDir string, external bool) error {
	what := machine.CCMKubeconfig + " has a token or files of yours, which last"
	if external {
		what = certsDir + " has no ca.key"
	}
	return finding.Refusedf("renew the certificate of %s: %s", v1alpha1.StaticPodUser, what).
		WithHint("have the owner of the CA sign a certificate for client authentication, CN=%s, and no group; put the "+
			"kubeconfig in place of %s, mode 0600; then `ccmadm certs renew --if-within 24h` starts the pod again with it. "+
			"Nothing was changed",
			v1alpha1.StaticPodUser, machine.CCMKubeconfig)
}
