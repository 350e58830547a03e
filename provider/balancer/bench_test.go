package balancer

import (
	"fmt"
	"testing"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A pass plans everything anew: here nothing has changed.
func BenchmarkAllocate_thousand(b *testing.B) {
	w := newWorld(addressPool("lan", "10.0.0.0/16"))
	for n := range 1000 {
		w.add(fmt.Sprint("s", n))
	}
	w.pass()
	s := w.snapshot()
	for b.Loop() {
		allocator.Allocate(s)
	}
}
