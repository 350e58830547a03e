//go:build !race

package bgp

const slower = 1
