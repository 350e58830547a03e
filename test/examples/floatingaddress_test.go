package examples

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// robot is Hetzner's Robot, as far as failover IPs go.
type robot struct {
	mu      sync.Mutex
	active  string
	refuses int // with this status
	posts   int
	drops   bool   // a POST is not answered, and has no effect yet
	instead string // a POST routes to this server
	locked  bool   // a POST is refused
}

func (r *robot) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	user, password, _ := req.BasicAuth()
	switch {
	case user != "#ws+a" || password != "secret" || req.URL.Path != "/failover/203.0.113.7":
		w.WriteHeader(http.StatusUnauthorized)
		return
	case r.refuses != 0:
		w.WriteHeader(r.refuses)
		return
	case req.Method == http.MethodPost && r.drops:
		r.posts++
		panic(http.ErrAbortHandler)
	case req.Method == http.MethodPost && r.locked:
		r.posts++
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error": {"status": 409, "code": "FAILOVER_LOCKED", "message": "another request is being processed"}}`)
		return
	case req.Method == http.MethodPost && r.active == req.PostFormValue("active_server_ip"):
		r.posts++
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error": {"status": 409, "code": "FAILOVER_ALREADY_ROUTED", "message": "already routed to the selected server"}}`)
		return
	case req.Method == http.MethodPost:
		r.active = cmp.Or(r.instead, req.PostFormValue("active_server_ip"))
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
	for _, tt := range []struct {
		name, token, address, node string
		generation                 int
		refuses                    int
		want                       int
		body, active               string
		posts                      int
	}{
		{"another token", "wrong", "203.0.113.7", "w2", 1, 0, 401, "{}", "198.51.100.11", 0},
		{"another address", "good", "203.0.113.8", "w2", 1, 0, 403, "{}", "198.51.100.11", 0},
		{"another machine", "good", "203.0.113.7", "w9", 1, 0, 403, "{}", "198.51.100.11", 0},
		{"routed already", "good", "203.0.113.7", "w1", 5, 0, 200, "198.51.100.11", "198.51.100.11", 0},
		{"the next owner", "good", "203.0.113.7", "w2", 6, 0, 200, "198.51.100.12", "198.51.100.12", 1},
		{"a late call", "good", "203.0.113.7", "w1", 5, 0, 409, `{"generation": 6}`, "198.51.100.12", 1},
		{"a repetition", "good", "203.0.113.7", "w2", 6, 0, 200, "198.51.100.12", "198.51.100.12", 1},
		{"Robot refuses", "good", "203.0.113.7", "w1", 7, 409, 502, "{}", "198.51.100.12", 1},
		{"Robot limits calls", "good", "203.0.113.7", "w1", 7, 403, 503, "{}", "198.51.100.12", 1},
		{"Robot limits calls by another status", "good", "203.0.113.7", "w1", 7, 429, 503, "{}", "198.51.100.12", 1},
		{"Robot answers again", "good", "203.0.113.7", "w1", 7, 0, 200, "198.51.100.11", "198.51.100.11", 2},
	} {
		r.mu.Lock()
		r.refuses = tt.refuses
		r.mu.Unlock()
		sent := fmt.Sprintf(asked, strconv.Quote(tt.address), strconv.Quote(tt.node), strconv.Itoa(tt.generation))
		code, body, later := put(t, address, tt.token, sent)
		if (code == http.StatusServiceUnavailable) != (later == "900") {
			t.Errorf("%s: it answers %d, and Retry-After: %q", tt.name, code, later)
		}
		if code != tt.want || !strings.Contains(body, tt.body) || r.active != tt.active || r.posts != tt.posts {
			t.Errorf("%s: got %d %s, routed to %s after %d changes; want %+v", tt.name, code, body, r.active, r.posts, tt)
		}
	}
}

// unsure is how long a change that Robot has not answered may still happen, in these tests.
const unsure = 3 * time.Second

// A change that Robot has not answered may still happen: the next call makes one, too, even if Robot names its server as it is, and one
// that changes nothing succeeds only later.
func TestFloatingAddress_Unanswered(t *testing.T) {
	r := &robot{active: "198.51.100.11"}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	address := receiver(t, server.URL)
	for _, tt := range []struct {
		name, node string
		drops      bool
		instead    string
		want       int
		posts      int
	}{
		{"no answer", "w2", true, "", 502, 1},
		{"the former server, no answer again", "w1", true, "", 502, 2},
		{"the former server, which still has it", "w1", false, "", 502, 3},
		{"the former server, which has it", "w1", false, "", 200, 3},
		{"a repetition", "w1", false, "", 200, 3},
		{"Robot routes it elsewhere", "w2", false, "198.51.100.13", 502, 4},
		{"Robot does it", "w2", false, "", 200, 5},
		{"a repetition of that", "w2", false, "", 200, 5},
		{"Robot refuses", "w1", false, "", 502, 6},
		{"Robot has done it since", "w1", false, "", 200, 6},
	} {
		if tt.name == "the former server, which has it" {
			time.Sleep(unsure)
		}
		r.mu.Lock()
		r.drops, r.instead, r.locked = tt.drops, tt.instead, tt.name == "Robot refuses"
		if tt.name == "Robot has done it since" {
			r.active = "198.51.100.11"
		}
		r.mu.Unlock()
		code, body, _ := put(t, address, "good", fmt.Sprintf(asked, `"203.0.113.7"`, strconv.Quote(tt.node), "1"))
		r.mu.Lock()
		if code != tt.want || r.posts != tt.posts {
			t.Errorf("%s: got %d %s after %d changes, want %d after %d", tt.name, code, body, r.posts, tt.want, tt.posts)
		}
		r.mu.Unlock()
	}
}

// asked is the body of a call, without address, node and generation.
const asked = `{"address": %s, "node": %s, "providerID": "", "internalIPs": [], "pool": "p", "services": [], "generation": %s}`

// put makes a call, as agents do.
func put(t *testing.T, address, token, body string) (code int, text, later string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer func() { _ = response.Body.Close() }()
	read, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(read), response.Header.Get("Retry-After")
}

// A call that cannot be one of an agent is refused, and leaves nothing that would refuse those of agents.
func TestFloatingAddress_Refuses(t *testing.T) {
	server := httptest.NewServer(&robot{active: "198.51.100.11"})
	t.Cleanup(server.Close)
	address := receiver(t, server.URL)
	at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMicro(), 10) }
	const ip, node = `"203.0.113.7"`, `"w1"`
	for _, tt := range []struct {
		name, address, node, generation string
		want                            int
	}{
		{"the greatest number that agents know", ip, node, "9007199254740991", 400},
		{"a greater number", ip, node, strings.Repeat("9", 40), 400},
		{"thousands of digits", ip, node, strings.Repeat("9", 5000), 400},
		{"a number with an exponent", ip, node, "1e30", 400},
		{"Infinity", ip, node, "Infinity", 400},
		{"a number beyond floating-point ones", ip, node, "1e999", 400},
		{"NaN", ip, node, "NaN", 400},
		{"a fraction", ip, node, "1.5", 400},
		{"true", ip, node, "true", 400},
		{"text", ip, node, `"1"`, 400},
		{"null", ip, node, "null", 400},
		{"zero", ip, node, "0", 400},
		{"a negative number", ip, node, "-1", 400},
		{"two days ahead", ip, node, at(48 * time.Hour), 400},
		{"a list for address", "[" + ip + "]", node, "1", 400},
		{"an object for address", "{}", node, "1", 400},
		{"a number for address", "7", node, "1", 400},
		{"a list for node", ip, "[]", "1", 400},
		{"a number for node", ip, "1", "1", 400},
		{"nested beyond any use", strings.Repeat("[", 60000), node, "1", 400},
		{"a call of an agent", ip, node, at(0), 200},
		{"a clock that is an hour ahead", ip, node, at(time.Hour), 200},
	} {
		if code, body, _ := put(t, address, "good", fmt.Sprintf(asked, tt.address, tt.node, tt.generation)); code != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, code, body, tt.want)
		}
	}
}

// The receiver does not start with an empty token, which "Authorization: Bearer" alone would have.
func TestFloatingAddress_EmptyToken(t *testing.T) {
	cmd, _ := command(t, "http://127.0.0.1:1", " \n")
	cmd.Stderr = nil
	ended := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer ended.Stop()
	out, err := cmd.CombinedOutput()
	if want := "token.txt is empty"; err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "Traceback") {
		t.Errorf("it ended with %v: %s\nwant: %s", err, out, want)
	}
}

// another dials from another address of this machine than calls do.
func another(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// open is whether the receiver keeps a connection for so long.
func open(conn net.Conn, within time.Duration) bool {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// Connections of one source are bounded. Those beyond are closed, other sources are answered, and this one as soon as it has fewer.
func TestFloatingAddress_ManyConnections(t *testing.T) {
	server := httptest.NewServer(&robot{active: "198.51.100.11"})
	t.Cleanup(server.Close)
	address := receiver(t, server.URL)
	var idle []net.Conn
	const bound = 256
	for range bound + 20 {
		idle = append(idle, another(t, address))
	}
	for i, conn := range idle[bound:] {
		if open(conn, time.Minute) {
			t.Fatalf("connection %d is open, want those beyond %d closed", bound+i, bound)
		}
	}
	if !open(idle[0], 20*time.Millisecond) || !open(idle[bound-1], 20*time.Millisecond) {
		t.Errorf("one of the first %d connections was closed", bound)
	}
	body := fmt.Sprintf(asked, `"203.0.113.7"`, `"w1"`, "1")
	if code, text, _ := put(t, address, "good", body); code != http.StatusOK {
		t.Errorf("while they are open, a call from elsewhere is answered %d %s", code, text)
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	again := false
	for began := time.Now(); !again && time.Since(began) < time.Minute; {
		again = open(another(t, address), 50*time.Millisecond)
	}
	if !again {
		t.Error("after they have ended, no connection of their source is kept")
	}
}

// A client that sends its request little by little loses its connection, unless it has sent the token.
func TestFloatingAddress_Slow(t *testing.T) {
	server := httptest.NewServer(&robot{active: "198.51.100.11"})
	t.Cleanup(server.Close)
	cmd, address := command(t, server.URL, "good\n")
	cmd.Args = []string{cmd.Args[0], "-c", "import receiver; receiver.Receiver.within = 1; receiver.main()"}
	cmd.Env = append(cmd.Env, "PYTHONPATH="+root+"/floating-address", "PYTHONDONTWRITEBYTECODE=1")
	listens(t, cmd, address)
	body := fmt.Sprintf(asked, `"203.0.113.7"`, `"w1"`, "1")
	head := fmt.Sprintf("PUT / HTTP/1.1\r\nContent-Length: %d\r\nAuthorization: Bearer good\r\n", len(body))
	for _, tt := range []struct {
		name, first, rest string
		open              bool
	}{
		{"no token", "PUT / HTTP/1.1\r\n", "X-Header: much", false},
		{"a token", head + "\r\n", body[:15], true},
	} {
		conn := another(t, address)
		_, _ = conn.Write([]byte(tt.first))
		for i := range tt.rest { // for two seconds
			_, _ = conn.Write([]byte(tt.rest[i : i+1]))
			time.Sleep(140 * time.Millisecond)
		}
		late := 20 * time.Millisecond
		if !tt.open {
			late = 5 * time.Second // a busy machine closes it some time after
		}
		if got := open(conn, late); got != tt.open {
			t.Errorf("%s: after two seconds, the connection is open: %t", tt.name, got)
		}
	}
}

// receiver runs the program, and returns where it listens.
func receiver(t *testing.T, robot string) string {
	t.Helper()
	cmd, address := command(t, robot, "good\n")
	listens(t, cmd, address)
	return address
}

// listens starts the program and waits until it listens.
func listens(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return
		}
	}
	t.Fatal("the receiver does not listen")
}

// command is the program with its files, and where it will listen.
func command(t *testing.T, robot, token string) (cmd *exec.Cmd, address string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"machines.json": `{"w1": "198.51.100.11", "w2": "198.51.100.12"}`, "token.txt": token, "password.txt": "secret\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	cmd = exec.CommandContext(t.Context(), "python3", root+"/floating-address/receiver.py")
	cmd.Env = append(os.Environ(), "MACHINES="+dir+"/machines.json", "ADDRESSES=203.0.113.7", "TOKEN_FILE="+dir+"/token.txt", "ROBOT_USER=#ws+a",
		"ROBOT_PASSWORD_FILE="+dir+"/password.txt", "LISTEN="+address, "ROBOT_URL="+robot, fmt.Sprintf("UNSURE_SECONDS=%g", unsure.Seconds()))
	cmd.Stderr = os.Stderr
	return cmd, address
}
