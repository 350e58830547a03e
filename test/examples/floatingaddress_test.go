package examples

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// robot is Hetzner's Robot, as far as failover IPs go.
type robot struct {
	mu      sync.Mutex
	active  string
	refuses bool
	posts   int
}

func (r *robot) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	user, password, _ := req.BasicAuth()
	switch {
	case user != "#ws+a" || password != "secret" || req.URL.Path != "/failover/203.0.113.7":
		w.WriteHeader(http.StatusUnauthorized)
		return
	case r.refuses:
		w.WriteHeader(http.StatusConflict)
		return
	case req.Method == http.MethodPost:
		r.active = req.PostFormValue("active_server_ip")
		r.posts++
	}
	fmt.Fprintf(w, `{"failover": {"ip": "203.0.113.7", "active_server_ip": %q}}`, r.active)
}

// TestFloatingAddress runs the receiver with a Robot of its own, and calls it as agents do.
func TestFloatingAddress(t *testing.T) {
	r := &robot{active: "198.51.100.11"}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	address := receiver(t, server.URL)
	call := func(token, target, node string, generation int) (int, string) {
		t.Helper()
		body := fmt.Sprintf(`{"address": %q, "node": %q, "providerID": "", "internalIPs": [], "pool": "p", "services": [], "generation": %d}`,
			target, node, generation)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	for _, tt := range []struct {
		name, token, address, node string
		generation                 int
		refuses                    bool
		want                       int
		body, active               string
		posts                      int
	}{
		{"another token", "wrong", "203.0.113.7", "w2", 1, false, 401, "{}", "198.51.100.11", 0},
		{"another address", "good", "203.0.113.8", "w2", 1, false, 403, "{}", "198.51.100.11", 0},
		{"another machine", "good", "203.0.113.7", "w9", 1, false, 403, "{}", "198.51.100.11", 0},
		{"routed already", "good", "203.0.113.7", "w1", 5, false, 200, "198.51.100.11", "198.51.100.11", 0},
		{"the next owner", "good", "203.0.113.7", "w2", 6, false, 200, "198.51.100.12", "198.51.100.12", 1},
		{"a late call", "good", "203.0.113.7", "w1", 5, false, 409, `{"generation": 6}`, "198.51.100.12", 1},
		{"a repetition", "good", "203.0.113.7", "w2", 6, false, 200, "198.51.100.12", "198.51.100.12", 1},
		{"Robot refuses", "good", "203.0.113.7", "w1", 7, true, 502, "{}", "198.51.100.12", 1},
		{"Robot answers again", "good", "203.0.113.7", "w1", 7, false, 200, "198.51.100.11", "198.51.100.11", 2},
	} {
		r.mu.Lock()
		r.refuses = tt.refuses
		r.mu.Unlock()
		code, body := call(tt.token, tt.address, tt.node, tt.generation)
		if code != tt.want || !strings.Contains(body, tt.body) || r.active != tt.active || r.posts != tt.posts {
			t.Errorf("%s: got %d %s, routed to %s after %d changes; want %+v", tt.name, code, body, r.active, r.posts, tt)
		}
	}
}

// receiver runs the program, and returns where it listens.
func receiver(t *testing.T, robot string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"machines.json": `{"w1": "198.51.100.11", "w2": "198.51.100.12"}`, "token.txt": "good\n", "password.txt": "secret\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.CommandContext(t.Context(), "python3", root+"/floating-address/receiver.py")
	cmd.Env = append(os.Environ(), "MACHINES="+dir+"/machines.json", "ADDRESSES=203.0.113.7", "TOKEN_FILE="+dir+"/token.txt", "ROBOT_USER=#ws+a",
		"ROBOT_PASSWORD_FILE="+dir+"/password.txt", "LISTEN="+address, "ROBOT_URL="+robot)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return address
		}
	}
	t.Fatal("the receiver does not listen")
	return ""
}
