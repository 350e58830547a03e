// Package identity is what the cloud-controller-manager of a control plane signs in with: a kubeconfig of its own, with
// a client certificate of the cluster's CA.
//
// Start at [Sign], which makes one, and at [Flaw], which says why one is to be made again. Reads: the CA's files and the
// kubeconfig of a machine. Writes nothing: phases writes what is signed here, and has the pod started again with it.
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// renewBefore is how near its end an identity is written anew.
const renewBefore = 30 * 24 * time.Hour

// Check reads the end of the certificate with which this machine's static pod asks the API server, and returns
// a finding where that is near or past: nothing else on a cluster watches it. Neither on a machine without one.
func Check(m *machine.Machine) (end time.Time, f *finding.Finding, err error) {
	cert, err := ClientCertificate(m, machine.CCMKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil, nil
	}
	if err != nil || cert == nil { // a token, or files of the administrator's
		return time.Time{}, nil, err
	}
	end = cert.NotAfter
	left := end.Sub(m.Now())
	if left > renewBefore {
		return end, nil, nil
	}
	id := finding.IdentityEnds
	when := fmt.Sprintf("ends on %s, in %s", end.Format(time.DateOnly), finding.Count(int(left.Hours()/24), "day"))
	if left <= 0 {
		id, when = finding.IdentityEnded, "ended on "+end.Format(time.DateOnly)
	}
	warning := id.New(machine.CCMKubeconfig, "the certificate of the cloud-controller-manager "+when)
	warning.Next = "on this machine: ccmadm certs renew"
	return end, &warning, nil
}

// Lasts tells whether the file has an identity without a flaw for another 30 days.
func Lasts(path, caFile, server string, now time.Time) bool {
	return Flaw(path, caFile, server, now.Add(renewBefore)) == nil
}

// Flaw says why the file should be written anew: it must connect to this server (or any, if empty), trust just
// the CA bundle that is there now, and have an identity that is good at that time, signed by the CA whose key is there.
// With an external CA that is the administrator's: a token, or certificates by their paths, too.
func Flaw(path, caFile, server string, at time.Time) error {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		return err
	}
	if server != "" && config.Host != server {
		return fmt.Errorf("it connects to %s, not to %s", config.Host, server)
	}
	bundle, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	if !SameCerts(bundle, config.CAData) {
		return fmt.Errorf("it does not trust the same CAs as %s", caFile)
	}
	if config.BearerToken != "" || config.BearerTokenFile != "" {
		return nil
	}
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil {
		return err
	}
	if signer := signerOf(caFile, bundle); signer != nil && certs[0].CheckSignatureFrom(signer) != nil {
		return fmt.Errorf("its certificate is signed by a former CA, not by that of %s", keyOf(caFile))
	}
	at = beforeItsEnd(at, certs[0], bundle)
	if end := certs[0].NotAfter; end.Before(at) {
		return fmt.Errorf("its certificate ends on %s", end.Format(time.DateOnly))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = certs[0].Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

func keyOf(caFile string) string { return filepath.Join(filepath.Dir(caFile), "ca.key") }

// beforeItsEnd is no time at which the CA that has signed a certificate is not good any more: a new one would not
// outlast it, either, and would be written anew each day.
func beforeItsEnd(at time.Time, cert *x509.Certificate, bundle []byte) time.Time {
	cas, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return at
	}
	var last time.Time
	for _, ca := range cas {
		if cert.CheckSignatureFrom(ca) == nil && ca.NotAfter.After(last) {
			last = ca.NotAfter
		}
	}
	if last.IsZero() || at.Before(last) {
		return at
	}
	return last
}

// ClientCertificate is the one that a kubeconfig has in itself; nil where it has a token, or names files.
func ClientCertificate(m *machine.Machine, path string) (*x509.Certificate, error) {
	data, err := m.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read an identity: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(config.CertData) == 0 {
		return nil, nil // no certificate is a fine answer
	}
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return certs[0], nil
}

// Kept tells whether the manager's kubeconfig on this machine is to stay when ccmadm goes: it is the administrator's, or the CA's key, with which
// another one could be signed, is not here. Where there is no kubeconfig nothing is kept.
func Kept(m *machine.Machine, certsDir string) (bool, error) {
	there, err := m.Exists(machine.CCMKubeconfig)
	if err != nil || !there {
		return false, err
	}
	key, err := m.Exists(filepath.Join(certsDir, "ca.key"))
	return !key || Theirs(m), err
}

// Theirs tells whether the identity is the administrator's: its kubeconfig has a token, or names files. It is not
// replaced by one of ours. What cannot be read is nobody's.
func Theirs(m *machine.Machine) bool {
	cert, err := ClientCertificate(m, machine.CCMKubeconfig)
	return err == nil && cert == nil
}
