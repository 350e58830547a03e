package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sighting is a line of test/e2e/prober.
type sighting struct {
	At    time.Time
	Took  time.Duration
	What  string
	Error string
	MAC   string
}

// onlooker is a client: a prober that runs on a machine.
type onlooker struct {
	level string

	mu   sync.Mutex
	seen []sighting
}

// figures are what a client saw of one event.
type figures struct {
	outage   time.Duration // longest time between two connections that came about, less the usual
	lost     int           // connections that did not
	refused  int           // of them, those that somebody answered
	tried    int
	lastLost time.Duration // when the last of them began
	why      string        // the first of them
	silent   time.Duration // longest time without an answer to ARP, which is asked ten times a second
	double   time.Duration // how long two machines claimed the address

	megabytes float64 // of an agent's memory, where that is measured
}

// probe runs the prober on a machine until the end of the test. A client that has seen nothing, since it did not run,
// is not to be taken for one that got no answer.
func (l *lab) probe(t *testing.T, level, machine, address string, link ...string) *onlooker {
	t.Helper()
	c := &onlooker{level: level}
	args := append([]string{"exec", "--name", l.name, machine, "--", "prober", address}, link...)
	cmd := exec.Command(labBinary, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		var s sighting
		for lines := json.NewDecoder(out); lines.Decode(&s) == nil; s = (sighting{}) {
			c.mu.Lock()
			c.seen = append(c.seen, s)
			c.mu.Unlock()
		}
		if t.Context().Err() == nil {
			t.Errorf("client %s on %s has ended before its test", level, machine)
		}
	}()
	t.Cleanup(func() {
		l.sh(t, machine, "pkill -f '[p]rober "+address+"'") // a signal to lab exec would not reach it
		<-read
		_ = cmd.Wait()
	})
	return c
}

// between returns what began in a time, in the order of its beginning.
func (c *onlooker) between(from, to time.Time, what string) []sighting {
	c.mu.Lock()
	defer c.mu.Unlock()
	var some []sighting
	for _, s := range c.seen {
		if s.What == what && s.At.After(from) && s.At.Before(to) {
			some = append(some, s)
		}
	}
	slices.SortFunc(some, func(a, b sighting) int { return a.At.Compare(b.At) })
	return some
}

// firstAfter is how long after a moment a connection came about, for as long as there was none: 0 is never.
func (c *onlooker) firstAfter(from time.Time) time.Duration {
	for _, s := range c.between(from, time.Now(), "connect") {
		if s.Error == "" {
			return s.At.Add(s.Took).Sub(from)
		}
	}
	return 0
}

// lastAfter is how long after a moment a connection still began and came about.
func (c *onlooker) lastAfter(from time.Time) time.Duration {
	var last time.Duration
	for _, s := range c.between(from, time.Now(), "connect") {
		if s.Error == "" {
			last = s.At.Sub(from)
		}
	}
	return last
}

// owner is the hardware address that claimed last.
func (c *onlooker) owner() string {
	claims := c.between(time.Time{}, time.Now(), "arp")
	if len(claims) == 0 {
		return ""
	}
	return claims[len(claims)-1].MAC
}

func (c *onlooker) figures(from, to time.Time) figures {
	var f figures
	last := from
	for _, s := range c.between(from, to, "connect") {
		f.tried++
		if s.Error != "" {
			f.lost++
			f.why = cmp.Or(f.why, s.Error)
			f.lastLost = s.At.Sub(from)
			if strings.Contains(s.Error, "refused") {
				f.refused++
			}
			continue
		}
		f.outage = max(f.outage, s.At.Sub(last)-usualPause)
		last = s.At
	}
	f.outage = max(f.outage, to.Sub(last)-usualPause)
	claims := c.between(from, to, "arp")
	last = from
	for i, claim := range claims {
		f.silent = max(f.silent, claim.At.Sub(last))
		last = claim.At
		f.double = max(f.double, overlap(claims[max(i-1, 0):]))
	}
	if len(claims) > 0 {
		f.silent = max(f.silent, to.Sub(last))
	}
	return f
}

// usualPause is between two connections, with what a busy machine adds.
const usualPause = 40 * time.Millisecond

// overlap is how long the first claimant went on after another had begun, which went on as well. One that falls silent
// for a second has left: whoever goes and comes back in less counts as two owners.
func overlap(claims []sighting) time.Duration {
	var began, first, last time.Time // of the other; of the first one, its latest claim, and the latest that counts
	for i, c := range claims {
		own := c.MAC == claims[0].MAC
		switch {
		case began.IsZero() && !own:
			began, first, last = c.At, c.At, c.At
		case began.IsZero():
		case c.At.Sub(first) > time.Second:
			return last.Sub(began)
		case !own:
			last = first
		default:
			first = c.At
			if claims[i-1].MAC != c.MAC {
				last = c.At
			}
		}
	}
	return last.Sub(began)
}

// TestOverlap is about the arithmetic, and needs no machine.
func TestOverlap(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                             0,
		"aaaa":                         0,
		"aabb":                         0,
		"aabab":                        100 * time.Millisecond,
		"aababab":                      300 * time.Millisecond,
		"a" + strings.Repeat("ba", 15): 2900 * time.Millisecond,
		"a" + strings.Repeat("b", 5) + strings.Repeat("a", 30): 500 * time.Millisecond,
		"ab..........a": 0, // back after more than a second
	} {
		var claims []sighting
		for i, mac := range text {
			if mac != '.' {
				claims = append(claims, sighting{At: time.UnixMilli(int64(100 * i)), MAC: string(mac)})
			}
		}
		var got time.Duration
		for i := range claims {
			got = max(got, overlap(claims[i:]))
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// inSubnet is an address of the machines' network that none of them has.
func (l *lab) inSubnet(t *testing.T, host byte) netip.Addr {
	t.Helper()
	own, err := netip.ParseAddr(l.address(t, "cp1"))
	if err != nil {
		t.Fatal(err)
	}
	four := own.As4()
	four[3] = host
	return netip.AddrFrom4(four)
}

// inFabric is an address of level BGP, which no machine's subnet has.
func (l *lab) inFabric(host byte) string { return fmt.Sprintf("192.0.2.%d", 32+host%32) }
