package quorum

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

// world is a network of members with true time. Each member has a clock of its own.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Duration
	members []*simulated
	flying  []flight
	cut     map[[2]int]bool
	loss    float64
	delay   time.Duration
	claims  []Claim
	owned   map[netip.Addr]int
	log     []string
	rollout bool // who starts may be of the version before
	sent    int  // datagrams
	sending func(*Datagram, []byte)
	know    func(*simulated, []Claim) []Claim // what a member knows of claims; nil: all there is
}

type simulated struct {
	name   string
	rate   float64
	offset time.Duration
	quorum *Member
	next   time.Duration // true time of its next turn
	claims []Claim       // that it saw in its last one
	look   Instant       // when it looks at all addresses again
	looks  int           // how often it has
	frozen time.Duration // until then it does nothing
	off    bool
	blind  bool     // it knows of no claim
	ending []string // Nodes of which it knows that endpoints end there
}

type flight struct {
	at   time.Duration
	from int
	to   int
	data []byte
}

func (w *world) clock(m *simulated) Instant {
	return m.offset + time.Duration(float64(w.now)*m.rate)
}

func newWorld(t *testing.T, seed uint64, members, addresses int) *world {
	random := rand.New(rand.NewPCG(seed, 17))
	w := &world{t: t, random: random, cut: map[[2]int]bool{}, delay: time.Millisecond, owned: map[netip.Addr]int{}}
	w.say("seed %d, %d members, %d addresses", seed, members, addresses)
	for i := range members {
		m := &simulated{
			name:   fmt.Sprintf("n%d", i),
			rate:   0.99 + 0.02*random.Float64(),
			offset: time.Second + time.Duration(random.Int64N(int64(time.Hour))),
		}
		w.members = append(w.members, m)
		w.restart(m)
	}
	for i := range addresses {
		c := Claim{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}
		for _, m := range w.members {
			c.Candidates = append(c.Candidates, m.name)
		}
		if random.IntN(2) == 0 {
			c.Preferred = c.Candidates[:1+i%len(c.Candidates)]
			c.ReturnAfter = time.Duration(random.Int64N(int64(2 * time.Second)))
		}
		w.claims = append(w.claims, c)
	}
	return w
}

func (w *world) names(to int) []string {
	var names []string
	for _, m := range w.members[:to] {
		names = append(names, m.name)
	}
	return names
}

func (w *world) restart(m *simulated) {
	m.quorum = New(m.name, uint64(w.now)+w.random.Uint64N(1000)+1, w.clock(m))
	m.quorum.underway = 1 + w.random.IntN(3)               // so that few addresses are many
	m.quorum.forgetAfter = grantFor + 100*time.Millisecond // histories are short
	m.quorum.LingerFor = time.Duration(w.random.Int64N(int64(time.Second)))
	m.off, m.look = false, 0
	w.say("%s starts", m.name)
	if w.rollout && w.random.IntN(2) == 0 {
		m.quorum.version = versionBefore + byte(w.random.IntN(versionNow-versionBefore))
	}
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8s ", w.now.Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for w.now < end {
		at := w.soonest(end)
		w.now = max(w.now, at)
		for i, m := range w.members {
			if !m.off && m.next <= w.now && m.frozen <= w.now {
				w.turn(i, m)
			}
		}
		w.deliver()
		w.check()
	}
}

func (w *world) soonest(end time.Duration) time.Duration {
	at := end
	for _, m := range w.members {
		if !m.off {
			at = min(at, max(m.next, m.frozen))
		}
	}
	for _, f := range w.flying {
		at = min(at, max(f.at, w.members[f.to].frozen))
	}
	return at
}

func (w *world) turn(i int, m *simulated) {
	now, claims := w.clock(m), w.seen(m)
	changed := !reflect.DeepEqual(claims, m.claims)
	if m.claims = claims; m.quorum.Changed(now) || changed || now >= m.look {
		m.quorum.Reconcile(now, claims)
		m.look, m.looks = now+m.quorum.Tick(now), m.looks+1
	}
	w.send(i, m)
	m.next = w.now + min(m.look-now, m.quorum.UntilHeartbeat(now))
}

func (w *world) send(i int, m *simulated) {
	for _, d := range m.quorum.Datagrams(w.clock(m)) {
		to := slices.IndexFunc(w.members, func(m *simulated) bool { return m.name == d.To })
		data := d.Encode([]byte("key"))
		if w.sent++; w.sending != nil {
			w.sending(d, data)
		}
		if to < 0 {
			continue // a Node that is off
		}
		for range 1 + w.random.IntN(20)/19 { // now and then twice
			if w.random.Float64() >= w.loss {
				w.flying = append(w.flying, flight{w.now + time.Duration(w.random.Int64N(int64(w.delay))) + 50*time.Microsecond, i, to, data})
			}
		}
	}
}

func (w *world) deliver() {
	var due []flight
	w.flying = slices.DeleteFunc(w.flying, func(f flight) bool {
		frozen := w.members[f.to].frozen > w.now // its socket keeps it meanwhile
		if f.at <= w.now && !frozen {
			due = append(due, f)
		}
		return f.at <= w.now && !frozen
	})
	for _, f := range due {
		m := w.members[f.to]
		if m.off || w.cut[[2]int{f.from, f.to}] {
			continue
		}
		d, err := Decode([]byte("key"), f.data)
		if err != nil {
			w.t.Fatal(err)
		}
		if d.Version > m.quorum.version {
			continue
		}
		m.quorum.Receive(w.clock(m), d)
		if len(d.Operations) > 0 || m.quorum.Hurried() {
			w.turn(f.to, m)
		}
	}
}

// check is the one thing that must never be otherwise.
func (w *world) check() {
	for _, c := range w.claims {
		var owners []string
		for _, m := range w.members {
			if !m.off && m.frozen <= w.now && m.quorum.Owns(w.clock(m), c.Address) {
				owners = append(owners, m.name)
			}
		}
		w.owned[c.Address] = len(owners)
		if len(owners) > 1 {
			for _, line := range w.log {
				w.t.Log(line)
			}
			w.t.Fatalf("%s: %s have %s", w.now, owners, c.Address)
		}
	}
}

// For who has changed the quorum: go test ./provider/announce/quorum -run Quorum -histories 3000 -first-history 300.
var (
	histories    = flag.Uint64("histories", 300, "random histories of faults of the quorum")
	firstHistory = flag.Uint64("first-history", 0, "seed of the first of them")
)

// eachHistory plays one for each seed, of which a test takes one in so many, and logs how long they are by the clock of their worlds.
func eachHistory(t *testing.T, in uint64, play func(seed uint64) *world) {
	t.Helper()
	long := time.Duration(0)
	for i := range *histories / in {
		long += play(*firstHistory + i).now
	}
	t.Logf("%d histories, %s", *histories/in, long.Round(time.Minute))
}

// A history that went wrong comes again with its seed.
func TestQuorum_SeedRepeats(t *testing.T) {
	for seed := range uint64(8) {
		var sums [2]uint64
		for i := range sums {
			w, sum := newWorld(t, seed, 7, 8), fnv.New64a()
			w.sending = func(_ *Datagram, data []byte) { _, _ = sum.Write(data) } // it never fails
			startsDuringCuts(w, 2+int(seed%4))
			sums[i] = sum.Sum64()
		}
		if sums[0] != sums[1] {
			t.Errorf("seed %d: two runs have sent other datagrams", seed)
		}
	}
}

// Under faults of every kind nobody ever shares an address, and soon after their end everybody has an answer again.
func TestQuorum_NeverTwoOwners(t *testing.T) {
	slowest := time.Duration(0)
	eachHistory(t, 1, func(seed uint64) *world {
		w := newWorld(t, seed, 1+int(seed%6), 1+int(seed%4))
		w.rollout = seed%3 == 0
		for _, m := range w.members {
			m.quorum.SetMembers(w.clock(m), w.names(len(w.members)), nil, nil)
		}
		w.run(1500 * time.Millisecond)
		for range 12 {
			w.fault()
			for _, m := range w.members {
				m.quorum.SetMembers(w.clock(m), w.names(len(w.members)), nil, nil)
			}
			w.run(time.Duration(w.random.Int64N(int64(1500 * time.Millisecond))))
		}
		w.calm()
		for _, m := range w.members {
			m.quorum.SetDraining(false)
			m.quorum.SetMembers(w.clock(m), w.names(len(w.members)), nil, nil)
		}
		w.say("calm")
		took := w.untilOwned()
		slowest = max(slowest, took)
		if took > 1300*time.Millisecond {
			for _, line := range w.log {
				t.Log(line)
			}
			t.Fatalf("seed %d: owners after %s", seed, took)
		}
		return w
	})
	t.Logf("slowest return to an owner for each address: %s", slowest)
}

// untilOwned runs until each address has an owner and returns how long that took.
func (w *world) untilOwned() time.Duration {
	start := w.now
	for w.now < start+5*time.Second {
		w.check()
		if !slices.ContainsFunc(w.claims, func(c Claim) bool { return w.owned[c.Address] == 0 }) {
			break
		}
		w.run(10 * time.Millisecond)
	}
	return w.now - start
}
