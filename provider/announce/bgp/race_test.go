//go:build race

package bgp

// slower multiplies the limits of tests: with the race detector they run beside others, where the kernel and BIRD wait for a
// processor. make long has them without it, alone.
const slower = 10
