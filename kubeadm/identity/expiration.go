package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/machine"
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
// static pod, and that which the pod of the control plane's address borrows from kube-scheduler, where it lists Nodes.
// It writes nothing.
func CheckExpiration(ctx context.Context, m *machine.Machine) (*Expirations, error) {
	list := &Expirations{Certificates: []Expiration{}, Authorities: []Expiration{}}
	certsDir, err := CertificatesDir(m)
	if err != nil {
		return nil, err
	}
	external, err := ExternalCA(m, certsDir)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct{ user, kubeconfig, renew string }{
		{machine.CCMManifest, machine.CCMKubeconfig, "ccmadm certs renew"},
		{machine.VIPMembers, machine.SchedulerConf, "kubeadm certs renew scheduler.conf"},
	} {
		if there, err := m.Exists(c.user); err != nil {
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
	list.Timer, err = TimerActive(ctx, m)
	return list, err
}

// expirationOf is that of a kubeconfig's certificate.
func expirationOf(m *machine.Machine, path, ca string) (*Expiration, error) {
	e := &Expiration{Name: filepath.Base(path), CAName: "ca"}
	cert, err := ClientCertificate(m, path)
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
	if flaw := Flaw(m.Path(path), m.Path(ca), "", m.Now()); flaw != nil {
		e.Flaw = flaw.Error()
	}
	return e, nil
}

func residual(m *machine.Machine, cert *x509.Certificate) int64 {
	return int64(cert.NotAfter.Sub(m.Now()).Seconds())
}

// TimerActive tells whether systemd renews this machine's identity before it ends.
func TimerActive(ctx context.Context, m *machine.Machine) (bool, error) {
	return m.ServiceActive(ctx, filepath.Base(machine.CertsTimer))
}
