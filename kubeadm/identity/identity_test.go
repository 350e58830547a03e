package identity

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

func TestSign(t *testing.T) {
	const server = "https://198.18.0.2:6443"
	dir := machinetest.NewCA(t)
	data, err := Sign(dir, server, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ccm.conf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	subject := certs[0].Subject
	if subject.CommonName != "system:cloud-controller-manager" || len(subject.Organization) != 0 {
		t.Errorf("identity is %s, want the user alone, in no group", subject)
	}
	if len(certs[0].ExtKeyUsage) != 1 || certs[0].ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("usages are %v, want client authentication only", certs[0].ExtKeyUsage)
	}

	for _, tc := range []struct {
		name, path, ca, server string
		want                   bool
	}{
		{"as signed", path, dir, server, true},
		{"another server", path, dir, "https://198.18.0.3:6443", false},
		{"another CA", path, machinetest.NewCA(t), server, false},
		{"no file", path + "x", dir, server, false},
	} {
		if got := Lasts(tc.path, filepath.Join(tc.ca, "ca.crt"), tc.server, time.Now()); got != tc.want {
			t.Errorf("%s: valid = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestSign_ExternalCA(t *testing.T) {
	dir := machinetest.NewCA(t)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	_, err := Sign(dir, "https://198.18.0.2:6443", time.Now())
	var known *finding.Error
	if !errors.As(err, &known) || !strings.Contains(known.Hint, "external CA") {
		t.Errorf("got %v, want an error that says what to do with an external CA", err)
	}
}

// Near the end of its CA no identity can be better than the one that is there: nothing is written each day.
func TestSign_CANearItsEnd(t *testing.T) {
	const server = "https://198.18.0.2:6443"
	dir := machinetest.NewCA(t)
	cas, err := certutil.CertsFromFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	now := cas[0].NotAfter.Add(-10 * 24 * time.Hour)
	data, err := Sign(dir, server, now)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ccm.conf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if !Lasts(path, filepath.Join(dir, "ca.crt"), server, now) {
		t.Error("an identity that was just signed is to be signed again")
	}
}
