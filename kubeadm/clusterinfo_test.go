package kubeadm

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// On a busy machine the controller manager starts a minute after the API server: until it has signed anything at all,
// a token that was made just now is not one that the cluster does not have.
func TestWaitedEnough(t *testing.T) {
	const kubeconfig = "kubeconfig"
	none, other := map[string]string{kubeconfig: ""}, map[string]string{kubeconfig: "", "jws-kubeconfig-other1": "x"}
	own := map[string]string{kubeconfig: "", "jws-kubeconfig-abcdef": "x"}
	tests := []struct {
		name   string
		data   map[string]string // nil: no answer
		waited time.Duration
		want   bool
	}{
		{"no answer yet", nil, 10 * time.Second, false},
		{"never an answer", nil, 16 * time.Second, true},
		{"signed", own, 0, true},
		{"another one is, for a moment", other, 10 * time.Second, false},
		{"another one is, for long", other, 16 * time.Second, true},
		{"none is, as the signer has not started", none, 170 * time.Second, false},
		{"none is, and there is no signer", none, 181 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var info *corev1.ConfigMap
			if tt.data != nil {
				info = &corev1.ConfigMap{Data: tt.data}
			}
			if got := waitedEnough(info, "abcdef", tt.waited); got != tt.want {
				t.Errorf("waitedEnough() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTokenError(t *testing.T) {
	for want, info := range map[string]map[string]string{
		"its second half is wrong":           {"jws-kubeconfig-abcdef": "x"},
		"the cluster has no such token":      {"jws-kubeconfig-other1": "x"},
		"no token of the cluster is signed:": {"kubeconfig": ""},
	} {
		if err := tokenError("10.0.0.1:6443", "abcdef", info); !strings.Contains(err.Error(), want) {
			t.Errorf("tokenError(%v) = %v, want %q", info, err, want)
		}
	}
}
