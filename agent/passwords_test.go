package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestPasswords(t *testing.T) {
	client := fake.NewClientset()
	secrets := client.CoreV1().Secrets(v1alpha1.Namespace)
	p, _ := newPasswords(secrets, nil, nil)
	step := func(what string, wantChanged bool, want map[string][]byte) {
		t.Helper()
		if got := p.read(t.Context()); got != wantChanged {
			t.Errorf("%s: changed: %v", what, got)
		}
		if diff := cmp.Diff(want, p.get()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if p.get() != nil {
		t.Error("something was read before it was")
	}
	step("no Secret", true, map[string][]byte{})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BGPSecretName, Namespace: v1alpha1.Namespace},
		Data:       map[string][]byte{"tor1": []byte("one")},
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	step("a Secret", true, secret.Data)
	step("the same", false, secret.Data)
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("away")
	})
	step("no answer", false, secret.Data)
}

func TestPasswords_OnlyIfWanted(t *testing.T) {
	peer := &v1alpha1.BGPPeer{Spec: v1alpha1.BGPPeerSpec{PasswordKey: "tor1"}}
	without := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Hook: &v1alpha1.PoolHook{}}}
	pool := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Hook: &v1alpha1.PoolHook{TokenKey: "cloud"}}}
	for _, tt := range []struct {
		name  string
		peers []*v1alpha1.BGPPeer
		pools []*v1alpha1.AddressPool
		want  []string
	}{
		{name: "nothing wants one", peers: []*v1alpha1.BGPPeer{{}}, pools: []*v1alpha1.AddressPool{{}, without}},
		{name: "a peer", peers: []*v1alpha1.BGPPeer{{}, peer}, want: []string{v1alpha1.BGPSecretName}},
		{name: "a hook", pools: []*v1alpha1.AddressPool{{}, without, pool}, want: []string{v1alpha1.HookSecretName}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // one round
			passwords, tokens := newPasswords(client.CoreV1().Secrets(v1alpha1.Namespace),
				func() []*v1alpha1.BGPPeer { return tt.peers }, func() []*v1alpha1.AddressPool { return tt.pools })
			must(t, passwords.run(ctx, func() {}))
			must(t, tokens.run(ctx, func() {}))
			var got []string
			for _, action := range client.Actions() {
				got = append(got, action.(clienttesting.GetAction).GetName())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Secrets that were read: %s", diff)
			}
		})
	}
}
