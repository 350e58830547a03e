package examples

import (
	"cmp"
	"encoding/json"
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

// netbox is NetBox, as far as the addresses of prefix 7, 192.0.2.0/29, go.
type netbox struct {
	mu      sync.Mutex
	objects map[int]map[string]any
	next    int
	fails   int    // with this status
	accepts string // as Authorization; empty: that of a token of version 1
	vrf     any    // of the prefix
	slow    time.Duration
}

func (n *netbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(n.slow)
	n.mu.Lock()
	defer n.mu.Unlock()
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	path := strings.TrimPrefix(r.URL.Path, "/api/ipam/")
	var id int
	_, _ = fmt.Sscanf(path, "ip-addresses/%d/", &id)
	switch {
	case r.Header.Get("Authorization") != cmp.Or(n.accepts, "Token secret"):
		w.WriteHeader(http.StatusForbidden)
	case n.fails != 0:
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(n.fails)
	case r.Method == http.MethodGet && path == "prefixes/7/":
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 7, "prefix": "192.0.2.0/29", "vrf": n.vrf})
	case r.Method == http.MethodPost && path == "prefixes/7/available-ips/":
		n.available(w, body)
	case r.Method == http.MethodGet && path == "ip-addresses/":
		n.list(w, r)
	case r.Method == http.MethodPost && path == "ip-addresses/":
		n.add(w, body)
	case r.Method == http.MethodPatch && n.objects[id] != nil:
		for key, value := range body {
			n.objects[id][key] = value
		}
		_ = json.NewEncoder(w).Encode(n.objects[id])
	case r.Method == http.MethodDelete && n.objects[id] != nil:
		delete(n.objects, id)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (n *netbox) list(w http.ResponseWriter, r *http.Request) {
	results := []any{}
	for _, object := range n.objects {
		address, _, _ := strings.Cut(object["address"].(string), "/")
		wants, description := r.URL.Query().Get("address"), r.URL.Query().Get("description")
		vrf := r.URL.Query().Get("vrf_id")
		of := fmt.Sprint(cmp.Or(object["vrf"], any("null")))
		if (vrf == "" || vrf == of) && (wants == "" || wants == address) && (description == "" || description == object["description"]) {
			results = append(results, object)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"count": len(results), "results": results})
}

func (n *netbox) add(w http.ResponseWriter, body map[string]any) {
	n.next++
	body["id"] = n.next
	n.objects[n.next] = body
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(body)
}

func (n *netbox) available(w http.ResponseWriter, body map[string]any) {
	for i := 1; i <= 3; i++ {
		body["address"] = fmt.Sprintf("192.0.2.%d/29", i)
		used := false
		for _, object := range n.objects {
			used = used || object["address"] == body["address"]
		}
		if !used {
			n.add(w, body)
			return
		}
	}
	w.WriteHeader(http.StatusConflict)
	fmt.Fprint(w, `{"detail": "An insufficient number of IP addresses are available within the prefix 192.0.2.0/29"}`)
}

// TestIPAM runs netbox.py with a NetBox of its own, and calls it as the cloud-controller-manager does.
func TestIPAM(t *testing.T) {
	n := &netbox{objects: map[int]map[string]any{1000: {"id": 1000, "address": "192.0.2.6/29", "description": "printer"}}}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	address := startNetBox(t, server.URL, "secret")
	for _, tt := range []struct {
		name, method, path, token, more string
		fails, want                     int
		body                            string
	}{
		{"another token", "PUT", "c/lan/u1/ipv4", "wrong", "", 0, 401, "another token"},
		{"another pool", "PUT", "c/wan/u1/ipv4", "good", "", 0, 409, "pool wan has no prefix of ipv4"},
		{"another family", "PUT", "c/lan/u1/ipv6", "good", "", 0, 409, "pool lan has no prefix of ipv6"},
		{"no path", "PUT", "", "good", "", 0, 400, "cannot be read"},
		{"an address", "PUT", "c/lan/u1/ipv4", "good", "", 0, 200, `{"address": "192.0.2.1"}`},
		{"the same again", "PUT", "c/lan/u1/ipv4", "good", `, "address": "192.0.2.1", "wanted": "192.0.2.1"`, 0, 200, `{"address": "192.0.2.1"}`},
		{"the next Service", "PUT", "c/lan/u2/ipv4", "good", "", 0, 200, `{"address": "192.0.2.2"}`},
		{"a wanted one", "PUT", "c/lan/u3/ipv4", "good", `, "wanted": "192.0.2.5"`, 0, 200, `{"address": "192.0.2.5"}`},
		{"another one is wanted, and none was used", "PUT", "c/lan/u3/ipv4", "good", `, "wanted": "192.0.2.4"`, 0, 200, `{"address": "192.0.2.4"}`},
		{"a printer's", "PUT", "c/lan/u4/ipv4", "good", `, "wanted": "192.0.2.6"`, 0, 409, "192.0.2.6 is in use"},
		{"outside of the prefix", "PUT", "c/lan/u4/ipv4", "good", `, "wanted": "192.0.3.1"`, 0, 409, "is not in 192.0.2.0/29"},
		{"no address", "PUT", "c/lan/u4/ipv4", "good", `, "wanted": "x"`, 0, 400, "cannot be read"},
		{"taken along", "PUT", "c/lan/u5/ipv4", "good", `, "address": "192.0.2.2", "wanted": "192.0.2.2", "from": "lan/u2"`, 0, 200, `"192.0.2.2"`},
		{"another one's", "PUT", "c/lan/u6/ipv4", "good", `, "address": "192.0.2.1", "wanted": "192.0.2.1", "from": "lan/u2"`, 0, 409, "in use"},
		{"the last one", "PUT", "c/lan/u2/ipv4", "good", "", 0, 200, `{"address": "192.0.2.3"}`},
		{"none is left", "PUT", "c/lan/u7/ipv4", "good", "", 0, 409, "no address left"},
		{"NetBox refuses", "PUT", "c/lan/u1/ipv4", "good", "", 500, 503, "NetBox answers 500"},
		{"NetBox refuses a release", "DELETE", "c/lan/u1/ipv4", "good", "", 500, 503, "NetBox answers 500"},
		{"a release", "DELETE", "c/lan/u1/ipv4", "good", "", 0, 200, "{}"},
		{"a release again", "DELETE", "c/lan/u1/ipv4", "good", "", 0, 404, "{}"},
		{"a free one", "PUT", "c/lan/u7/ipv4", "good", "", 0, 200, `{"address": "192.0.2.1"}`},
	} {
		n.mu.Lock()
		n.fails = tt.fails
		n.mu.Unlock()
		code, body := callIPAM(t, tt.method, "http://"+address+"/"+tt.path, tt.token, `{"namespace": "shop", "name": "web"`+tt.more+"}")
		if code != tt.want || !strings.Contains(body, tt.body) {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, code, body, tt.want, tt.body)
		}
	}
	if len(n.objects) != 5 || n.objects[1000]["description"] != "printer" {
		t.Errorf("NetBox has %v", n.objects)
	}
}

// A call that has waited for longer than the client does is not carried out: the client may have released the address meanwhile.
func TestIPAM_Late(t *testing.T) {
	n := &netbox{objects: map[int]map[string]any{}, slow: 4 * time.Second}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	t.Setenv("TIMEOUT", "3")
	address := startNetBox(t, server.URL, "secret")
	codes := make(chan int, 2)
	for _, uid := range []string{"u1", "u2"} {
		go func() {
			code, _ := callIPAM(t, "PUT", "http://"+address+"/c/lan/"+uid+"/ipv4", "good", `{"namespace": "shop", "name": "web"}`)
			codes <- code
		}()
	}
	if a, b := <-codes, <-codes; a+b != 200+503 || len(n.objects) != 1 {
		t.Errorf("got %d and %d, and NetBox has %v", a, b, n.objects)
	}
}

// A prefix of a VRF has addresses that another VRF has, too.
func TestIPAM_VRF(t *testing.T) {
	n := &netbox{vrf: map[string]any{"id": 3, "name": "shop"}, objects: map[int]map[string]any{
		1000: {"id": 1000, "address": "192.0.2.5/29", "description": "global"},
		1001: {"id": 1001, "address": "192.0.2.6/29", "description": "printer", "vrf": 3},
	}}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	url := "http://" + startNetBox(t, server.URL, "secret") + "/c/lan/"
	for wanted, want := range map[string]int{"192.0.2.5": 200, "192.0.2.6": 409} {
		code, body := callIPAM(t, "PUT", url+wanted+"/ipv4", "good", `{"namespace": "shop", "name": "web", "wanted": "`+wanted+`"}`)
		if code != want {
			t.Errorf("%s: got %d %s, want %d", wanted, code, body, want)
		}
	}
	if vrf := fmt.Sprint(n.objects[1]["vrf"]); vrf != "3" {
		t.Errorf("it was added to VRF %s: %v", vrf, n.objects)
	}
}

// Tokens of version 2, which NetBox 4.5 makes, are sent as Bearer.
func TestIPAM_Token(t *testing.T) {
	n := &netbox{objects: map[int]map[string]any{}, accepts: "Bearer nbt_key.secret"}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	address := startNetBox(t, server.URL, "nbt_key.secret")
	if code, body := callIPAM(t, "PUT", "http://"+address+"/c/lan/u1/ipv4", "good", `{"namespace": "shop", "name": "web"}`); code != 200 {
		t.Errorf("got %d %s", code, body)
	}
}

func callIPAM(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// startNetBox runs netbox.py, and returns where it listens.
func startNetBox(t *testing.T, url, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "netbox.txt")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return startAdapter(t, "netbox.py", `PREFIXES={"lan": {"ipv4": 7}}`, "NETBOX_TOKEN_FILE="+file, "NETBOX_URL="+url).address
}

// adapter is a program of examples/ipam that runs.
type adapter struct {
	address string
	cmd     *exec.Cmd
}

// startAdapter runs one with an environment, and the token "good".
func startAdapter(t *testing.T, program string, env ...string) adapter {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token.txt")
	if err := os.WriteFile(token, []byte("good\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := adapter{l.Addr().String(), exec.CommandContext(t.Context(), "python3", root+"/ipam/"+program)}
	_ = l.Close()
	a.cmd.Env = append(os.Environ(), "TOKEN_FILE="+token, "LISTEN="+a.address, "PYTHONDONTWRITEBYTECODE=1")
	a.cmd.Env = append(a.cmd.Env, env...)
	a.cmd.Stderr = os.Stderr
	listens(t, a.cmd, a.address)
	return a
}

// call calls it for a Service of cluster c, as the cloud-controller-manager does. more are fields of the body.
func (a adapter) call(t *testing.T, method, path, more string) (int, string) {
	t.Helper()
	return callIPAM(t, method, "http://"+a.address+"/c/"+path, "good", `{"namespace": "shop", "name": "web"`+more+"}")
}
