package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
)

// serve answers /healthz, /readyz and /metrics until ctx is done. All are for this machine: there is no secret in them,
// and no identity to ask for. What state returns, if there is any, is an error of /readyz alone: kubelets restart what
// is not healthy, and a restart brings no carrier back, but takes a vote, and the address from a machine that is alone.
// Vip, if there is any, answers what is known of the control plane's address.
func serve(ctx context.Context, address string, state func() error, vip http.HandlerFunc) error {
	if address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen at --metrics-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if state != nil {
			if err := state(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	if vip != nil {
		mux.HandleFunc(vipStatePath, vip)
	}
	mux.Handle("/metrics", legacyregistry.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
