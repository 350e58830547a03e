package phases

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// Expirations are the certificates that ccmadm keeps on a machine, in the form of `kubeadm certs check-expiration -o
// json`.
type Expirations struct {
	Certificates []Expiration `json:"certificates"`
	Authorities  []Expiration `json:"certificateAuthorities"`
	// Timer says that systemd renews them before they end.
	Timer bool `json:"timer"`
}

// Expiration is one of them.
type Expiration struct {
	Name string `json:"name"`
	// Date is its end; zero where the file is missing, or holds no certificate.
	Date time.Time `json:"expirationDate,omitzero"`
	// Residual is the time until then, in seconds; below zero afterwards.
	Residual          int64  `json:"residualTime"`
	ExternallyManaged bool   `json:"externallyManaged"`
	CAName            string `json:"caName,omitempty"`
	Missing           bool   `json:"missing"`
	// Renew is the command that renews it, and Flaw why that should be done now.
	Renew string `json:"renew,omitempty"`
	Flaw  string `json:"flaw,omitempty"`
}

// CheckExpiration reads the ends of this machine's certificates that are ccmadm's to look after: the identity of its
// static pod, and that which the pod of the control plane's address borrows from kube-scheduler. It writes nothing.
func CheckExpiration(ctx context.Context, m *machine.Machine) (*Expirations, error) {
	list := &Expirations{Certificates: []Expiration{}, Authorities: []Expiration{}}
	certsDir, err := certificatesDir(m)
	if err != nil {
		return nil, err
	}
	external, err := externalCA(m, certsDir)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct{ manifest, kubeconfig, renew string }{
		{machine.CCMManifest, machine.CCMKubeconfig, "ccmadm certs renew"},
		{machine.VIPManifest, machine.SchedulerConf, "kubeadm certs renew scheduler.conf"},
	} {
		if there, err := m.Exists(c.manifest); err != nil {
			return nil, err
		} else if !there {
			continue
		}
		e, err := expirationOf(m, c.kubeconfig, filepath.Join(certsDir, "ca.crt"))
		if err != nil {
			return nil, err
		}
		if e.ExternallyManaged = e.ExternallyManaged || external; !e.ExternallyManaged {
			e.Renew = c.renew
		}
		list.Certificates = append(list.Certificates, *e)
	}
	if len(list.Certificates) == 0 {
		return list, nil
	}
	data, err := m.Read(filepath.Join(certsDir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	bundle, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	for _, cert := range bundle {
		list.Authorities = append(list.Authorities, Expiration{
			Name: "ca", Date: cert.NotAfter.UTC(), Residual: residual(m, cert), ExternallyManaged: external,
		})
	}
	list.Timer, err = certsTimerActive(ctx, m)
	return list, err
}

// expirationOf is that of a kubeconfig's certificate.
func expirationOf(m *machine.Machine, path, ca string) (*Expiration, error) {
	e := &Expiration{Name: filepath.Base(path), CAName: "ca"}
	cert, err := clientCertificate(m, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Missing = true
		return e, nil
	case err != nil:
		return nil, err
	}
	if cert == nil { // a token, or files of the administrator's
		e.ExternallyManaged, e.CAName = true, ""
		return e, nil
	}
	e.Date, e.Residual = cert.NotAfter.UTC(), residual(m, cert)
	if flaw := identityFlaw(m.Path(path), m.Path(ca), "", m.Now()); flaw != nil {
		e.Flaw = flaw.Error()
	}
	return e, nil
}

func residual(m *machine.Machine, cert *x509.Certificate) int64 {
	return int64(cert.NotAfter.Sub(m.Now()).Seconds())
}

// certificatesDir is where this machine keeps the CA, by what an earlier run has written down.
func certificatesDir(m *machine.Machine) (string, error) {
	rec, err := localRecord(m)
	if err != nil || rec == nil || rec.CertificatesDir == "" {
		return machine.PKIDir, err
	}
	return rec.CertificatesDir, nil
}

// RenewCertificates signs a new identity for this machine's static pod, and has the kubelet start the pod again with
// it. Within is how near its end has to be, or the file has to have another flaw; zero: it is renewed in any case. It
// asks this machine alone: an API server that is down keeps no certificate from being renewed.
func RenewCertificates(ctx context.Context, d *Data, within time.Duration) error {
	d = d.in("certs")
	if err := ctx.Err(); err != nil {
		return err
	}
	if !d.Machine.Superuser {
		return errNotRoot("renew certificates")
	}
	cert, err := ownIdentity(d.Machine)
	if err != nil {
		return err
	}
	certsDir, err := certificatesDir(d.Machine)
	if err != nil {
		return err
	}
	server, err := serverOfIdentity(d.Machine)
	if err != nil {
		return err
	}
	external, err := externalCA(d.Machine, certsDir)
	if err != nil {
		return err
	}
	wanted := server
	if external {
		wanted = "" // the administrator's own
	}
	path, ca := d.Machine.Path(machine.CCMKubeconfig), d.Machine.Path(filepath.Join(certsDir, "ca.crt"))
	flaw := identityFlaw(path, ca, wanted, d.Machine.Now().Add(within))
	switch {
	case flaw == nil && within > 0:
		d.Sayf("%s unchanged: it lasts for more than %s", machine.CCMKubeconfig, within)
		return restampStaticPod(d) // it may have been replaced by hand, or by a run that was cut short
	case external, cert == nil && flaw == nil:
		return refuseExternal(certsDir, external)
	case within > 0:
		d.Sayf("%s is renewed: %v", machine.CCMKubeconfig, flaw)
	}
	return newIdentity(d, d.Machine.Path(certsDir), server)
}

// ownIdentity is the certificate of the static pod, nil where its kubeconfig is missing or has none.
func ownIdentity(m *machine.Machine) (*x509.Certificate, error) {
	cert, err := clientCertificate(m, machine.CCMKubeconfig)
	if !errors.Is(err, fs.ErrNotExist) {
		return cert, nil // what cannot be read is a flaw, and is renewed
	}
	if there, err := m.Exists(machine.CCMManifest); err != nil || there {
		return nil, err
	}
	return nil, finding.Preflightf("renew certificates: this machine has none of ccmadm's").
		WithHint("they are on control planes whose cloud-controller-manager is a static pod; in the other modes it has a " +
			"token, which the kubelet renews. Those of kubeadm: kubeadm certs renew all")
}

// serverOfIdentity is the one that kubeadm has given to kube-controller-manager, or else what the identity has.
func serverOfIdentity(m *machine.Machine) (string, error) {
	server, err := controlPlaneURL(m.Path(machine.ControllerManagerConf))
	if err == nil {
		return server, nil
	}
	config, loadErr := clientcmd.LoadFromFile(m.Path(machine.CCMKubeconfig))
	if loadErr != nil {
		return "", err
	}
	return serverOf(config, machine.CCMKubeconfig)
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
