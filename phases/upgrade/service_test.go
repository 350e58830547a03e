package upgrade

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// Whether this machine reaches the Service is not for a proxy to say, which none of the pods goes through.
func TestAskService_WithoutAProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
	}))
	defer server.Close()
	config := &rest.Config{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "127.0.0.1:443" { // as kube-proxy's rules lead to the API server
				address = server.Listener.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	m, _ := machinetest.New(t)
	r, out := phasestest.Run{}.Must(t, m)
	if err := askService(r.Env, []string{"127.0.0.1"}, config); err != nil {
		t.Fatal(err)
	}
	if want := "Service/default/kubernetes answers at 127.0.0.1: v1.36.3"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %s, want %s", out, want)
	}
}
