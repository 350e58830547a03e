package l2

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// kernelAnswers finds the addresses of level L2 for which the kernel of this Node answers on the interface where an agent
// would, whichever Node has them: ARP goes by arp_ignore, NDP by the interface that has the address. The caller has the
// lock. What cannot be read is left out.
func (l *Announcer) kernelAnswers() []v1alpha1.KernelAnswer {
	if l.view == nil {
		return nil
	}
	var found []v1alpha1.KernelAnswer
	ignores := map[string]int{}
	for _, c := range l.view.Claims {
		on := l.local[c.Address]
		if len(on) == 0 || c.Level != v1alpha1.LevelL2 {
			continue
		}
		at := announce.InterfaceFor(c.Address, l.interfaces, l.view.InterfacesOf(c))
		if at == "" {
			continue
		}
		if _, known := ignores[at]; !known {
			ignores[at] = l.arpIgnore(at)
		}
		for _, name := range on {
			if answers(c.Address, name == at, ignores[at]) {
				found = append(found, v1alpha1.KernelAnswer{Address: c.Address.String(), On: name, Interface: at})
				break
			}
		}
	}
	return found
}

// answers reports whether the kernel does on an interface: here says that the address is on that one.
func answers(address netip.Addr, here bool, arpIgnore int) bool {
	if !address.Is4() || arpIgnore == 1 || arpIgnore == 2 {
		return here
	}
	return arpIgnore == 0 || arpIgnore == 3 // 3 leaves out addresses of the machine's scope only
}

// arpIgnore is what counts on an interface: the greater of all's and its own. Not known is 8, which answers nothing.
func (l *Announcer) arpIgnore(name string) int {
	highest := 0
	err := enter(l.Namespace, func() error {
		for _, of := range []string{"all", name} {
			text, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + of + "/arp_ignore")
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				return err
			}
			highest = max(highest, n)
		}
		return nil
	})
	if err != nil {
		return 8
	}
	return highest
}

// tellKernel logs each address for which the kernel answers, once. It is called before an address is announced, and with
// each report. The caller has the lock.
func (l *Announcer) tellKernel() []v1alpha1.KernelAnswer {
	found := l.kernelAnswers()
	now := map[v1alpha1.KernelAnswer]bool{}
	for _, k := range found {
		now[k] = true
		if !l.told[k] {
			l.Log.Error(nil, "The kernel of this Node answers for an address that another Node may own: set strictARP for kube-proxy in mode ipvs, "+
				"or net.ipv4.conf.all.arp_ignore=1", "address", k.Address, "on", k.On, "interface", k.Interface)
		}
	}
	l.told = now
	return found
}

// kernelChanged reports whether the next report says something else of the kernel than the last. Addresses of pods come and go.
// The caller has the lock.
func (l *Announcer) kernelChanged() bool {
	found := l.kernelAnswers()
	return len(found) != len(l.told) || slices.ContainsFunc(found, func(k v1alpha1.KernelAnswer) bool { return !l.told[k] })
}

// kernelOf reports whether a Node reports that its kernel answers for the address.
func (l *Announcer) kernelOf(node string, address netip.Addr) bool {
	agent := l.view.Agents[node]
	if agent == nil {
		return false
	}
	return slices.ContainsFunc(agent.Status.KernelAnswers, func(k v1alpha1.KernelAnswer) bool { return k.Address == address.String() })
}
