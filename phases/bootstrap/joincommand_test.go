package bootstrap

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestUsableToken(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	token := func(id string, fields ...string) corev1.Secret {
		data := map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"auth-extra-groups": []byte("system:bootstrappers:mine,system:bootstrappers:kubeadm:default-node-token"),
		}
		for i := 0; i < len(fields); i += 2 {
			data[fields[i]] = []byte(fields[i+1])
		}
		return corev1.Secret{Data: data}
	}
	for _, tc := range []struct {
		name    string
		secrets []corev1.Secret
		want    string
	}{
		{name: "none"},
		{name: "expired", secrets: []corev1.Secret{token("aaaaaa", "expiration", "2026-11-21T09:59:59Z")}},
		{name: "an expiration that is no time", secrets: []corev1.Secret{token("aaaaaa", "expiration", "tomorrow")}},
		{name: "for certificates only, as --upload-certs makes one", secrets: []corev1.Secret{token("aaaaaa", "usage-bootstrap-authentication", "false")}},
		{name: "the one that lasts longest", secrets: []corev1.Secret{
			token("aaaaaa", "expiration", "2026-11-21T11:00:00Z"), token("bbbbbb", "expiration", "2026-11-22T10:00:00Z"), token("cccccc", "expiration", "2026-11-21T12:00:00Z"),
		}, want: "bbbbbb.0123456789abcdef"},
		{name: "of another group, which may not read the record", secrets: []corev1.Secret{token("aaaaaa", "auth-extra-groups", "system:bootstrappers:mine")}},
		{name: "of no group", secrets: []corev1.Secret{token("aaaaaa", "auth-extra-groups", "")}},
		{name: "one that expires before one that does not", secrets: []corev1.Secret{
			token("aaaaaa"), token("bbbbbb", "expiration", "2026-11-21T11:00:00Z"), token("cccccc"),
		}, want: "bbbbbb.0123456789abcdef"},
		{name: "one that does not expire before one that ends soon", secrets: []corev1.Secret{
			token("aaaaaa", "expiration", "2026-11-21T10:59:00Z"), token("bbbbbb"),
		}, want: "bbbbbb.0123456789abcdef"},
		{name: "one that ends soon", secrets: []corev1.Secret{token("aaaaaa", "expiration", "2026-11-21T10:59:00Z")}, want: "aaaaaa.0123456789abcdef"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := usableToken(tc.secrets, now); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
