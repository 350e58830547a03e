//go:build !race

package bgp

const patience = 1
