package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// passwordsEvery is how often a Secret is read while something wants a key of it. The agent may not watch Secrets, as it could
// then see more than these.
const passwordsEvery = 10 * time.Second

// passwords are those of BGPPeers, or tokens of hooks. What was read once stays while the API server does not answer.
type passwords struct {
	secrets corev1client.SecretInterface
	name    string // of the Secret
	wanted  func() bool

	mu   sync.Mutex
	data map[string][]byte // nil before it was read, empty where there is no Secret
}

// run reads until ctx is done, and calls changed after a change.
func (p *passwords) run(ctx context.Context, changed func()) error {
	ticker := time.NewTicker(passwordsEvery)
	defer ticker.Stop()
	for {
		if p.wanted() && p.read(ctx) {
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// read returns whether something has changed.
func (p *passwords) read(ctx context.Context) bool {
	secret, err := p.secrets.Get(ctx, p.name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		if ctx.Err() == nil {
			klog.ErrorS(err, "Cannot read passwords or tokens", "secret", p.name)
		}
		return false
	}
	data := map[string][]byte{}
	if err == nil {
		maps.Copy(data, secret.Data)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	same := p.data != nil && maps.EqualFunc(p.data, data, slices.Equal)
	p.data = data
	return !same
}

func (p *passwords) get() map[string][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.data
}

// newPasswords makes those of Secret [v1alpha1.BGPSecretName], and tokens of [v1alpha1.HookSecretName].
func newPasswords(secrets corev1client.SecretInterface, peers func() []*v1alpha1.BGPPeer, pools func() []*v1alpha1.AddressPool,
) (*passwords, *passwords) {
	return &passwords{secrets: secrets, name: v1alpha1.BGPSecretName, wanted: func() bool {
			return slices.ContainsFunc(peers(), func(p *v1alpha1.BGPPeer) bool { return p.Spec.PasswordKey != "" })
		}}, &passwords{secrets: secrets, name: v1alpha1.HookSecretName, wanted: func() bool {
			return slices.ContainsFunc(pools(), func(p *v1alpha1.AddressPool) bool { return p.Spec.Hook != nil && p.Spec.Hook.TokenKey != "" })
		}}
}
