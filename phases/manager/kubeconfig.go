package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

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
		Only: []v1alpha1.Mode{v1alpha1.ModeStaticPod},
		Run:  RunKubeconfig,
	}
}

// JoinKubeconfig is Kubeconfig on a control plane that joins.
func JoinKubeconfig() workflow.Phase {
	p := Kubeconfig()
	p.Run = func(ctx context.Context, d *workflow.Data) error {
		if !workflow.IsControlPlane(d) {
			return nil
		}
		return RunKubeconfig(ctx, d)
	}
	return p
}

// RunKubeconfig signs the client certificate, writes the kubeconfig, and installs the timer that renews it.
func RunKubeconfig(ctx context.Context, d *workflow.Data) error {
	s, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(d, s); err != nil {
		return err
	}
	return InstallCertsTimer(ctx, d, s.CertificatesDir)
}

func writeKubeconfig(d *workflow.Data, s *settings.Settings) error {
	certsDir, server := d.Machine.Path(s.CertificatesDir), workflow.LocalServer(d)
	ca := filepath.Join(certsDir, "ca.crt")
	if _, err := os.Stat(ca); errors.Is(err, fs.ErrNotExist) {
		if d.DryRun {
			d.Sayf("would sign %s with the CA that kubeadm makes", machine.CCMKubeconfig)
			return nil
		}
		return finding.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err).
			WithHint("kubeadm makes the CA: kubeadm init phase certs ca --config %s", machine.KubeadmConfig)
	}
	wanted := server
	switch external, err := identity.ExternalCA(d.Machine, s.CertificatesDir); {
	case err != nil:
		return err
	case !external && identity.Theirs(d.Machine):
		_, err := trustCAs(d, ca)
		return errors.Join(err, RestampStaticPod(d))
	case external:
		wanted = "" // the administrator's own
	}
	if identity.Lasts(d.Machine.Path(machine.CCMKubeconfig), ca, wanted, d.Machine.Now()) {
		d.Sayf("%s unchanged", machine.CCMKubeconfig)
		return RestampStaticPod(d) // a run that was cut short may have come no further than the file
	}
	return newIdentity(d, certsDir, server)
}

// newIdentity signs one, and starts the pod again that has the former.
func newIdentity(d *workflow.Data, certsDir, server string) error {
	data, err := identity.Sign(certsDir, server, d.Machine.Now())
	if err != nil {
		return err
	}
	if err := d.Write(machine.File{Path: machine.CCMKubeconfig, Data: data, Mode: 0o600, Opaque: true}); err != nil {
		return err
	}
	return RestampStaticPod(d)
}

// CheckExternalCA finds out before there is half a cluster that nobody can sign the identity of the static pod.
func CheckExternalCA(ctx context.Context, d *workflow.Data) error {
	s, err := d.Settings(ctx)
	if err != nil || s.Mode != v1alpha1.ModeStaticPod {
		return err
	}
	external, err := identity.ExternalCA(d.Machine, s.CertificatesDir)
	if err != nil || !external {
		return err
	}
	path := d.Machine.Path(machine.CCMKubeconfig)
	if identity.Lasts(path, d.Machine.Path(filepath.Join(s.CertificatesDir, "ca.crt")), "", d.Machine.Now()) {
		return nil
	}
	return finding.Usagef("%s has no ca.key, so that no identity can be signed for %s, and %s holds none that lasts", s.CertificatesDir, v1alpha1.StaticPodUser, machine.CCMKubeconfig).
		WithHint("with an external CA, put a kubeconfig for the user %s at %s, or choose --mode DaemonSet", v1alpha1.StaticPodUser, machine.CCMKubeconfig)
}
