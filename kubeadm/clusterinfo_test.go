package kubeadm

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// On a busy machine the controller manager starts a minute after the API server: until it has signed anything at all,
// a token that was made just now is not one that the cluster does not have.
func TestPatience(t *testing.T) {
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
			limit, why := patience(info, "abcdef")
			if got := why == nil || tt.waited >= limit; got != tt.want {
				t.Errorf("patience() = %v, %v: enough after %v is %v, want %v", limit, why, tt.waited, got, tt.want)
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

// An API server that answers 503, then cluster-info without a signature, then with one: each look in vain is told with its reason and
// the time left.
func TestFetchClusterInfo_Waits(t *testing.T) {
	var looks atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		info := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"kubeconfig": ""}}
		switch looks.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 2:
		default:
			info.Data["jws-kubeconfig-abcdef"] = "x"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(info)
	}))
	defer server.Close()
	var told []string
	info, err := fetchClusterInfo(t.Context(), BootstrapDiscovery{Endpoint: server.Listener.Addr().String()}, "abcdef", func(left time.Duration, why error) {
		told = append(told, fmt.Sprintf("%v %v", left.Round(time.Minute), why))
	})
	if err != nil || info.Data["jws-kubeconfig-abcdef"] != "x" {
		t.Errorf("fetchClusterInfo() = %v, %v", info, err)
	}
	if len(told) != 2 || !strings.Contains(told[0], "0s the server is currently unable to handle the request") ||
		told[1] != "3m0s the kube-controller-manager has not signed any bootstrap token" {
		t.Errorf("told %q", told)
	}
}

// A machine that boots beside its first control plane waits as long as timeouts.discovery says.
func TestFetchClusterInfo_TimeoutOfTheUser(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	boot := BootstrapDiscovery{Endpoint: listener.Addr().String(), Timeout: time.Hour}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told time.Duration
	_, err = fetchClusterInfo(ctx, boot, "abcdef", func(left time.Duration, _ error) { told = left; cancel() })
	if err == nil || told.Round(time.Minute) != time.Hour {
		t.Errorf("%v left, %v; want an hour", told, err)
	}
}
