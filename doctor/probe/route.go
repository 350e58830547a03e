package probe

import (
	"strconv"
	"strings"
)

// defaultRoute is the interface of the default route with the smallest metric in /proc/net/route; empty: there is none.
func defaultRoute(text string) string {
	best, least := "", uint64(0)
	for line := range strings.Lines(text) {
		f := strings.Fields(line) // Iface Destination Gateway Flags RefCnt Use Metric Mask ...
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		metric, err := strconv.ParseUint(f[6], 10, 32)
		flags, flagsErr := strconv.ParseUint(f[3], 16, 32)
		if err == nil && flagsErr == nil && usable(flags) && (best == "" || metric < least) {
			best, least = f[0], metric
		}
	}
	return best
}

// defaultRoute6 is that in /proc/net/ipv6_route, where all numbers are hexadecimal. A route of lo is one that refuses.
func defaultRoute6(text string) string {
	best, least := "", uint64(0)
	for line := range strings.Lines(text) {
		f := strings.Fields(line) // destination prefix source prefix hop metric refcnt use flags device
		if len(f) < 10 || strings.Trim(f[0], "0") != "" || f[1] != "00" || f[9] == "lo" {
			continue
		}
		metric, err := strconv.ParseUint(f[5], 16, 32)
		flags, flagsErr := strconv.ParseUint(f[8], 16, 32)
		if err == nil && flagsErr == nil && usable(flags) && (best == "" || metric < least) {
			best, least = f[9], metric
		}
	}
	return best
}

// usable reports whether a route is up and does not reject.
func usable(flags uint64) bool {
	const up, reject = 0x1, 0x200
	return flags&up != 0 && flags&reject == 0
}
