package bgp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// A router that sends the routes of the whole Internet has no session, which its report says; it has one again after it was repaired.
func TestSpeaker_TooManyPrefixes(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	few := strings.Replace(node1, "ipv4 { import all; export none; }", "error wait time 1, 1; ipv4 { import all; export all; }", 1)
	var routes strings.Builder
	for i := range maxPrefixes + 1 {
		fmt.Fprintf(&routes, "\troute 100.%d.%d.%d/32 blackhole;\n", 64+i>>16, i>>8&255, i&255)
	}
	r := newRouter(t, few+"protocol static many {\n\tipv4;\n"+routes.String()+"}\n")
	s, err := NewSpeaker(t.Context(), logr.Discard(), nodeAddresses("1"), func() {}) // it would log each route
	noError(t, err)
	t.Cleanup(func() { noError(t, s.Close(t.Context())) })
	s.mu.Lock()
	s.prefixesPause = time.Minute
	s.mu.Unlock()
	tor := routerAt("tor1", "10.9.0.1")
	s.SetRouters(t.Context(), []Router{tor})
	noError(t, s.SetPaths(paths(vip4)))
	ended := func() bool { return strings.Contains(sessionOf(t, s, "tor1").Message, "sends more than 50000 routes") }
	eventually(t, time.Minute, "the session ends with its reason", ended)
	// Another session in its place, before the first is made again, is made again as well.
	s.mu.Lock()
	s.prefixesPause = time.Second
	s.mu.Unlock()
	tor.HoldTime.Duration = 6 * time.Second
	s.causes.forget(tor.Address)
	s.SetRouters(t.Context(), []Router{tor})
	eventually(t, time.Minute, "the next session ends, too", ended)

	file := filepath.Join(r.dir, "bird.conf")
	config, err := os.ReadFile(file)
	noError(t, err)
	repaired, _, _ := strings.Cut(string(config), "protocol static many")
	noError(t, os.WriteFile(file, []byte(repaired), 0o600))
	r.birdc("configure")
	again := func() bool { return len(r.nextHops(t, vip4)) > 0 && sessionOf(t, s, "tor1").State == stateEstablished }
	eventually(t, time.Minute, "the router has the address again", again)
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		if !again() {
			t.Fatal("the session was made once more after it was established")
		}
	}
}
