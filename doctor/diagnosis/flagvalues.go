package diagnosis

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// expanded is what a unit's file may have in the place of a value, and systemd puts something else there: variables and
// specifiers.
var expanded = regexp.MustCompile(`\$|%[A-Za-z%]`)

// open says that nobody can tell the value of the process by this text.
func (p HostPlace) open() bool { return expanded.MatchString(p.Value) }

// mapFlags have keys with values, of which later uses of the flag add some or replace single ones.
func mapFlags() []string {
	return []string{
		"node-labels", "feature-gates", "system-reserved", "kube-reserved", "qos-reserved", "eviction-hard", "eviction-soft",
		"eviction-soft-grace-period", "eviction-minimum-reclaim", "cpu-manager-policy-options", "topology-manager-policy-options",
	}
}

// listFlags are lists to which later uses of the flag add.
func listFlags() []string {
	return []string{"cluster-dns", "allowed-unsafe-sysctls", "enforce-node-allocatable", "tls-cipher-suites"}
}

// pairs are the keys of a map flag's value, as kubelets read it. One of eviction's has a < between key and value.
func pairs(text string) map[string]string {
	list := map[string]string{}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if at := strings.IndexAny(word, "=<"); at >= 0 {
			list[strings.TrimSpace(word[:at])] = strings.TrimSpace(word[at+1:])
		} else if word != "" {
			list[word] = ""
		}
	}
	return list
}

// items are the items of a list in the order of the alphabet.
func items(text string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" && !yield(word) {
				return
			}
		}
	})
}

// sameValue says whether a kubelet would make the same of two texts.
func sameValue(flag, a, b string) bool {
	switch {
	case a == b:
		return true
	case slices.Contains(mapFlags(), flag):
		return maps.Equal(pairs(a), pairs(b))
	case flag == "register-with-taints", slices.Contains(listFlags(), flag) && flag != "cluster-dns": // whose order counts
		return slices.Equal(items(a), items(b))
	}
	return false
}

// contradicts says whether two uses of a flag are about the same and say different things.
func (p HostPlace) contradicts(flag string, other HostPlace) bool {
	switch {
	case p.open() || other.open() || slices.Contains(listFlags(), flag):
		return false
	case slices.Contains(mapFlags(), flag):
		first := pairs(p.Value)
		for key, value := range pairs(other.Value) {
			if before, is := first[key]; is && before != value {
				return true
			}
		}
		return false
	}
	return !sameValue(flag, p.Value, other.Value)
}
