package l2

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// newIPv6Agents makes agents with one address of IPv6, which "a" alone may have.
func newIPv6Agents(t *testing.T) (*agents, announce.Claim) {
	t.Helper()
	a := newAgents(t)
	a.setIPv6("accept_dad", "0") // a link-local address is there at once
	a.view.Pools = map[string]*v1alpha1.AddressPool{"lan": {
		ObjectMeta: metav1.ObjectMeta{Name: "lan"}, Spec: v1alpha1.AddressPoolSpec{Interfaces: []string{"lan-a", "lan-b", "lan-c"}},
	}}
	claim := announce.Claim{
		Address: netip.MustParseAddr("fd08::100"), Level: v1alpha1.LevelL2, Pool: "lan", Probed: true, Candidates: []string{"a"},
	}
	a.view.Claims = []announce.Claim{claim}
	return a, claim
}

// setIPv6 changes a setting of the interface of "a".
func (a *agents) setIPv6(setting, value string) {
	a.t.Helper()
	a.at(a.hosts["a"], func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/lan-a/"+setting, []byte(value), 0)
	})
}

// A Node that cannot answer for an address, though it reports an interface for it, does not keep it from the others, though they prefer it. It
// takes the address when it can answer, and not before.
func TestL2_CannotAnswer(t *testing.T) {
	for _, voters := range [][]string{{"a", "b", "c"}, {"b", "c"}} {
		t.Run("votes of "+strings.Join(voters, ","), func(t *testing.T) {
			a, claim := newIPv6Agents(t)
			a.setIPv6("disable_ipv6", "1")
			all := a.view.Members
			a.view.Members = voters
			for _, name := range all {
				a.start(name)
			}
			waitFor(t, 10*time.Second, func() bool { return a.list["a"].Owns(claim.Address) })
			time.Sleep(cannotFor + 2*time.Second)
			if !a.list["a"].Owns(claim.Address) {
				t.Error("the only Node that could have the address has released it")
			}
			claim.Candidates, claim.Preferred = all, []string{"a"}
			a.set(func(v *announce.View) { v.Claims = []announce.Claim{claim} })
			owner, took := a.owner(claim.Address, "a", cannotFor+within(6*time.Second))
			t.Logf("%s has it after %s", owner, took)
			a.at(a.hosts["a"], func() error { // whatever happens to its interfaces meanwhile
				link, err := netlink.LinkByName("lan-a")
				if err != nil {
					return err
				}
				another, err := netlink.ParseAddr("10.8.1.1/24")
				if err != nil {
					return err
				}
				return netlink.AddrAdd(link, another)
			})
			for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(5 * time.Millisecond) {
				if a.list["a"].Owns(claim.Address) || !a.list[owner].Owns(claim.Address) {
					t.Fatalf("%s has lost the address after %s; a, which cannot answer for it, owns it: %t",
						owner, time.Since(began), a.list["a"].Owns(claim.Address))
				}
			}
			a.setIPv6("disable_ipv6", "0")
			_, took = a.owner(claim.Address, owner, within(5*time.Second))
			t.Logf("a has it %s after it can answer", took)
		})
	}
}

// Addresses that a Node cannot answer for share what is left of the candidates that they share.
func TestL2_UnableShareCandidates(t *testing.T) {
	l, all, two := New(Options{Node: "a"}), []string{"a", "b", "c"}, []string{"a", "b"}
	l.view = &announce.View{Claims: []announce.Claim{
		{Candidates: all}, {Candidates: all}, {Candidates: two}, {Candidates: all[:2]}, {Candidates: all}, {},
	}}
	for i := range l.view.Claims {
		c := &l.view.Claims[i]
		c.Level, c.Address = v1alpha1.LevelL2, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		if i != 4 {
			l.unable[c.Address] = time.Hour
		}
	}
	claims := l.claims(0)
	var got []string
	for _, c := range claims {
		got = append(got, strings.Join(c.Candidates, ","))
	}
	if want := []string{"b,c", "b,c", "b", "b", "a,b,c", ""}; !slices.Equal(got, want) {
		t.Errorf("the candidates are %q, want %q", got, want)
	}
	if &claims[0].Candidates[0] != &claims[1].Candidates[0] {
		t.Error("two claims with one list have two lists without the Node")
	}
}

// An owner whose link-local address goes away can answer for IPv6 no more, though its interface and the addresses in its report stay.
func TestL2_LinkLocalGone(t *testing.T) {
	a, claim := newIPv6Agents(t)
	a.at(a.hosts["a"], func() error {
		link, err := netlink.LinkByName("lan-a")
		if err != nil {
			return err
		}
		own, err := netlink.ParseAddr("fd08::1/64")
		if err != nil {
			return err
		}
		return netlink.AddrDel(link, own)
	})
	a.startAll()
	a.owner(claim.Address, "", 10*time.Second)
	a.set(func(v *announce.View) {
		claim.Candidates = slices.Clone(v.Members)
		v.Claims = []announce.Claim{claim}
	})
	time.Sleep(500 * time.Millisecond)
	a.setIPv6("disable_ipv6", "1")
	owner, took := a.owner(claim.Address, "a", cannotFor+within(6*time.Second))
	t.Logf("%s has it after %s", owner, took)
	if err := a.list["a"].Answerable(claim.Address); err == nil {
		t.Error("a says that it can answer for the address")
	}
}
