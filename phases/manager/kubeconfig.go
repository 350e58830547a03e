package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Kubeconfig signs the client certificate of the manager's static pod.
func Kubeconfig() workflow.Phase {
	return workflow.Phase{
		Name:          "kubeconfig",
		WithoutServer: true,
		Short:         "Sign a client certificate for the cloud-controller-manager",
		Long: `Reads the cluster's CA.
Writes ` + machine.CCMKubeconfig + ` for the user ` + v1alpha1.StaticPodUser + `, who is in no group and has
only the permissions that the rbac phase gives; and, where systemd runs and the CA's key is here, ` + machine.CertsTimer + `,
which renews the certificate within its last 30 days.`,
		Only: []config.Mode{config.ModeStaticPod},
		Run:  RunKubeconfig,
	}
}

// JoinKubeconfig is Kubeconfig on a control plane that joins.
func JoinKubeconfig() workflow.Phase {
	p := Kubeconfig()
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		if !workflow.IsControlPlane(r.Host) {
			return nil
		}
		return RunKubeconfig(ctx, r)
	}
	return p
}

// RunKubeconfig signs the client certificate, writes the kubeconfig, and installs the timer that renews it.
func RunKubeconfig(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(r.Host, s); err != nil {
		return err
	}
	return InstallCertsTimer(ctx, r.Env, s.CertificatesDir)
}

func writeKubeconfig(h *workflow.Host, s *settings.Settings) error {
	certsDir, server := h.Machine.Path(s.CertificatesDir), workflow.LocalServer(h)
	ca := filepath.Join(certsDir, "ca.crt")
	if _, err := os.Stat(ca); errors.Is(err, fs.ErrNotExist) {
		if h.DryRun {
			h.Sayf("would sign %s with the CA that kubeadm makes", machine.CCMKubeconfig)
			return nil
		}
		return finding.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err).
			WithHint("kubeadm makes the CA: kubeadm init phase certs ca --config %s", machine.KubeadmConfig)
	}
	wanted := server
	switch external, err := identity.ExternalCA(h.Machine, s.CertificatesDir); {
	case err != nil:
		return err
	case !external && identity.Theirs(h.Machine):
		theirs, _, err := trustCAs(h.Env, ca)
		if err != nil {
			return err
		}
		return restamp(h.Env, theirs)
	case external:
		wanted = "" // the administrator's own
	}
	if identity.Lasts(h.Machine.Path(machine.CCMKubeconfig), ca, wanted, h.Machine.Now()) {
		h.SayUnchanged(machine.CCMKubeconfig)
		return RestampStaticPod(h.Env) // a run that was cut short may have come no further than the file
	}
	return newIdentity(h.Env, certsDir, server)
}

// newIdentity signs one, and starts the pod again that has the former.
func newIdentity(env *workflow.Env, certsDir, server string) error {
	data, err := identity.Sign(certsDir, server, env.Machine.Now())
	if err != nil {
		return err
	}
	if err := env.Write(machine.File{Path: machine.CCMKubeconfig, Data: data, Mode: 0o600, Opaque: true}); err != nil {
		return err
	}
	return restamp(env, data)
}

// CheckExternalCA finds out before there is half a cluster that nobody can sign the identity of the static pod.
func CheckExternalCA(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || s.Mode != config.ModeStaticPod {
		return err
	}
	external, err := identity.ExternalCA(r.Machine, s.CertificatesDir)
	if err != nil || !external {
		return err
	}
	path := r.Machine.Path(machine.CCMKubeconfig)
	if identity.Lasts(path, r.Machine.Path(filepath.Join(s.CertificatesDir, "ca.crt")), "", r.Machine.Now()) {
		return nil
	}
	return finding.Usagef("%s has no ca.key, so that no identity can be signed for %s, and %s holds none that lasts", s.CertificatesDir, v1alpha1.StaticPodUser, machine.CCMKubeconfig).
		WithHint("with an external CA, put a kubeconfig for the user %s at %s, or choose --mode DaemonSet", v1alpha1.StaticPodUser, machine.CCMKubeconfig)
}
