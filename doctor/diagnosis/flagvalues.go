package diagnosis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// expanded is what a unit's file may have in the place of a value, and systemd puts something else there: variables and
// specifiers.
var expanded = regexp.MustCompile(`\$|%[A-Za-z%]`)

// open says that this text does not show the value of the process.
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

// sameValue reports whether a kubelet would make the same of two texts.
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

// contradicts reports whether two uses of a flag are about the same and say different things.
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

// flag is the one of the name; an empty one where there is none.
func (h *Host) flag(name string) HostFlag {
	i := slices.IndexFunc(h.Flags, func(f HostFlag) bool { return f.Name == name })
	if i < 0 {
		return HostFlag{Name: name}
	}
	return h.Flags[i]
}

// wanted is the value by the files.
func (f *HostFlag) wanted() (string, bool) {
	if len(f.Places) == 0 {
		return "", false
	}
	return f.Places[len(f.Places)-1].Value, true
}

// twice says that two places contradict each other.
func (f *HostFlag) twice() bool {
	for i, p := range f.Places {
		if slices.ContainsFunc(f.Places[:i], func(first HostPlace) bool { return first.contradicts(f.Name, p) }) {
			return true
		}
	}
	return false
}

// effective is the value of the process, or of the files where there is none.
func (h *Host) effective(name string) (string, bool) {
	f := h.flag(name)
	if h.Unit != nil && h.Unit.PID > 0 {
		return f.Value, f.Runs
	}
	return f.wanted()
}

func (p HostPlace) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Value)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Value)
}

// unlike are the flags that files say, and that the process does not have, or has otherwise.
func (h *Host) unlike() []HostFlag {
	var list []HostFlag
	for _, f := range h.Flags {
		wanted, is := f.wanted()
		if is && (!f.Runs || !f.Places[len(f.Places)-1].open() && !sameValue(f.Name, f.Value, wanted)) {
			list = append(list, f)
		}
	}
	return list
}

// restartIsSafe says that the kubelet would come back: what differs are flags of external cloud mode that are right.
func (h *Host) restartIsSafe() bool {
	for _, f := range h.unlike() {
		wanted, _ := f.wanted()
		known := f.Name == "cloud-provider" && wanted == "external" ||
			f.Name == "node-ip" && slices.Contains(h.Addresses, wanted)
		if !known {
			return false
		}
	}
	if slices.ContainsFunc(h.Flags, func(f HostFlag) bool { // what it would become cannot be told
		wanted, is := f.wanted()
		return is && f.Value != wanted && f.Places[len(f.Places)-1].open()
	}) {
		return false
	}
	return h.Unit != nil && h.Unit.PID > 0 && !h.Unit.Stale // its new content is not known
}
