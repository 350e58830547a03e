package l2

import (
	"testing"

	"github.com/ccmadm/ccmadm/provider/netfilter/netnstest"
)

// Pods of plug-in ptp have a link each at their machine, with the address of their gateway: they are no interfaces of the machine. One that
// a container has as a machine is, with a network or with a single address of its own.
func TestReadInterfaces_Pods(t *testing.T) {
	machine := netnstest.New(t)
	for _, name := range []string{"pod1", "pod2", "lan", "routed"} {
		machine.Connect(name, netnstest.New(t), "eth0")
	}
	machine.Address("pod1", "10.244.0.1/32", "fd00:10:244::1/128")
	machine.Address("pod2", "10.244.0.1/32", "fd00:10:244::1/128")
	machine.Address("lan", "192.0.2.11/24")
	machine.Address("routed", "198.51.100.7/32")
	machine.Inside(func() {
		found, _, err := readInterfaces(-1)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, i := range found {
			names = append(names, i.Name)
		}
		if len(names) != 2 || names[0] != "lan" || names[1] != "routed" {
			t.Errorf("interfaces %q, want lan and routed", names)
		}
	})
}
