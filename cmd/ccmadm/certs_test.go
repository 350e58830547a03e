package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/kubeadm/identity"
)

// The timer renews the identity of the static pod, and nothing of kubeadm's: that of the control plane's address comes from kube-scheduler.
func TestShowExpirations_Timer(t *testing.T) {
	own, scheduler := identity.Expiration{Name: "cloud-controller-manager.conf"}, identity.Expiration{Name: "scheduler.conf"}
	for _, tt := range []struct {
		name string
		list identity.Expirations
		want string
	}{
		{"with a timer", identity.Expirations{Certificates: []identity.Expiration{own, scheduler}, Timer: true}, "timer renews cloud-controller-manager.conf in time"},
		{"without", identity.Expirations{Certificates: []identity.Expiration{own}}, "so cloud-controller-manager.conf is not renewed automatically"},
		{"no static pod", identity.Expirations{Certificates: []identity.Expiration{scheduler}}, ""},
	} {
		var out bytes.Buffer
		check(t, showExpirations(&out, &tt.list))
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "ccmadm-certs.timer") != (tt.want != "") {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
