package machine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/templates"
)

// metadata is a service like those of clouds: it wants a token, and speaks text and JSON.
func metadata(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ttl") != "60" {
			http.Error(w, "how long?", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, "t0ken")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{"/ips": "192.0.2.7\n192.0.2.8\n2001:db8::7\n", "/name": "Web-1\n", "/id": "i-1", "/all.json": `{"zone": {"name": "z1", "number": 7}}`, "/broken.json": `{`}
		answer, ok := answers[r.URL.Path]
		switch {
		case r.Header.Get("Token") != "t0ken":
			http.Error(w, "no token", http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, answer)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestAskMetadata(t *testing.T) {
	server := metadata(t)
	token := &templates.MetadataToken{Path: "/token", Headers: map[string]string{"Ttl": "60"}, Header: "Token"}
	tests := []struct {
		name    string
		m       templates.Metadata
		want    map[string]string
		wantErr string
	}{
		{
			name: "text and JSON",
			m:    templates.Metadata{URL: server.URL, Token: token, Values: map[string]string{"name": "/name", "zone": "/all.json#zone.name", "number": "/all.json#zone.number", "nothing": "/nothing", "none": "/all.json#rack", "deeper": "/all.json#zone.name.first"}},
			want: map[string]string{"name": "Web-1", "zone": "z1", "number": "7", "nothing": "", "none": "", "deeper": ""},
		},
		{name: "no token", m: templates.Metadata{URL: server.URL, Values: map[string]string{"name": "/name"}}, wantErr: "401 Unauthorized"},
		{name: "a token refused", m: templates.Metadata{URL: server.URL, Token: &templates.MetadataToken{Path: "/token", Header: "Token"}}, wantErr: "for a token: PUT"},
		{name: "no JSON", m: templates.Metadata{URL: server.URL, Token: token, Values: map[string]string{"x": "/broken.json#x"}}, wantErr: "for x: the answer is no JSON"},
		{name: "nobody there", m: templates.Metadata{URL: "http://127.0.0.1:1", Values: map[string]string{"x": "/x"}}, wantErr: "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AskMetadata(t.Context(), &tt.m)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("got error %v, want %q", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); tt.want != nil && diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}
