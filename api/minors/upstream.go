package minors

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
)

// The tables are embedded compressed, and as text, since the tree has no archives: the JSON beside them, which is for people, was 1 % of
// ccmadm.
//
//go:embed upstream/*.json.gz.base64
var tables embed.FS

// Minor is what the programs of one minor version say of themselves.
type Minor struct {
	// Kubernetes, EtcdServer are the releases that were asked, as v1.37.2.
	Kubernetes string `json:"kubernetes"`
	EtcdServer string `json:"etcdServer"`
	// Flags are those of each component, by name. Hidden ones are among them.
	Flags map[string]map[string]Flag `json:"flags"`
	// FeatureGates are those of all components, by name.
	FeatureGates map[string]FeatureGate `json:"featureGates"`
	Kubeadm      Kubeadm                `json:"kubeadm"`
}

// Flag is a flag in one minor. Of etcd's the names alone are known.
type Flag struct {
	Default string `json:"default,omitempty"`
	// Deprecated is upstream's text, which says what to use instead.
	Deprecated string `json:"deprecated,omitempty"`
}

// FeatureGate is a gate in one minor.
type FeatureGate struct {
	// Stage is ALPHA, BETA, DEPRECATED, or empty for GA.
	Stage string `json:"stage,omitempty"`
	// Default is kube-apiserver's: kube-controller-manager has WatchListClient on where others have not.
	Default bool `json:"default,omitempty"`
	// Locked gates take no other value than the default: a component that is given one ends.
	Locked bool `json:"locked,omitempty"`
	// UnknownTo are the components that have not linked it.
	UnknownTo []string `json:"unknownTo,omitempty"`
}

// Kubeadm is the kubeadm of one minor.
type Kubeadm struct {
	Gates []string `json:"gates"`
	// Etcd, CoreDNS and Pause are the tags of the images that it deploys.
	Etcd    string `json:"etcd"`
	CoreDNS string `json:"coreDNS"`
	Pause   string `json:"pause"`
	// Patches are the targets of patches, with which names of files in the directory of --patches begin.
	Patches []string `json:"patches"`
	// API has the kinds of each version of its API, with their fields.
	API map[string]map[string]Fields `json:"api"`
}

// Fields are a struct's, by their names in JSON; nil is a value below which names are free. Those of a list's items are
// below the name [Items].
type Fields map[string]Fields

// Items is what [Fields] of a list have alone.
const Items = "[]"

// History is what ccmadm knows of all minors, oldest first.
type History []Entry

// Entry is one minor with its table.
type Entry struct {
	Name string // 1.37
	Minor
}

// once has the tables after the first that asked for them: they are asked for with every document that is linted, and every
// flag of every kubelet.
//
//nolint:gochecknoglobals // embedded files, which are the same for ever
var once = sync.OnceValue(read)

// Load returns the tables. They are the same for all callers, who must not change them.
func Load() History { return once() }

func read() History {
	var h History
	for _, name := range Known() {
		e := Entry{Name: name}
		data, err := tables.ReadFile(path.Join("upstream", name+".json.gz.base64"))
		if err == nil {
			e.Minor, err = decode(data)
		}
		if err != nil { // embedded, and read by a test
			panic(fmt.Sprintf("read table of Kubernetes %s: %v", name, err))
		}
		h = append(h, e)
	}
	return h
}

func decode(compressed []byte) (Minor, error) {
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(compressed)))
	if err != nil {
		return Minor{}, err
	}
	var m Minor
	err = json.NewDecoder(r).Decode(&m)
	return m, err
}

// Of returns the table of a minor, as "1.37".
func (h History) Of(minor string) (Minor, bool) {
	i := slices.IndexFunc(h, func(e Entry) bool { return e.Name == minor })
	if i < 0 {
		return Minor{}, false
	}
	return h[i].Minor, true
}

// upTo is the history that ends with a minor.
func (h History) upTo(minor string) History {
	i := slices.IndexFunc(h, func(e Entry) bool { return e.Name == minor })
	return h[:i+1]
}

// removed is the minor since which something is missing that an earlier one had; empty: it is there, or never was.
func (h History) removed(minor string, has func(Minor) bool) string {
	since, seen := "", false
	for _, e := range h.upTo(minor) {
		switch {
		case has(e.Minor):
			seen, since = true, ""
		case seen && since == "":
			since = e.Name
		}
	}
	return since
}

// FlagRemoved returns since which minor, at the latest that of the argument, a component has a flag no more; empty: it
// has it, or no known minor had.
func (h History) FlagRemoved(component, flag, minor string) string {
	return h.removed(minor, func(m Minor) bool { _, ok := m.Flags[component][flag]; return ok })
}

// RemovedFlags lists the flags of a component that an earlier minor had and this one has no more, sorted.
func (h History) RemovedFlags(component, minor string) []string {
	names := map[string]bool{}
	for _, e := range h.upTo(minor) {
		for name := range e.Flags[component] {
			names[name] = true
		}
	}
	m, _ := h.Of(minor)
	for name := range m.Flags[component] {
		delete(names, name)
	}
	return slices.Sorted(maps.Keys(names))
}

// GateRemoved is [History.FlagRemoved] for feature gates.
func (h History) GateRemoved(component, gate, minor string) string {
	return h.removed(minor, func(m Minor) bool {
		g, ok := m.FeatureGates[gate]
		return ok && !slices.Contains(g.UnknownTo, component)
	})
}

// KubeadmGateRemoved is [History.FlagRemoved] for kubeadm's own feature gates.
func (h History) KubeadmGateRemoved(gate, minor string) string {
	return h.removed(minor, func(m Minor) bool { return slices.Contains(m.Kubeadm.Gates, gate) })
}

// KubeadmAPI returns kinds and fields of a version of kubeadm's API, as the newest minor that has it declares them, and
// that minor.
func (h History) KubeadmAPI(apiVersion string) (kinds map[string]Fields, minor string) {
	for _, e := range slices.Backward(h) {
		if kinds, ok := e.Kubeadm.API[apiVersion]; ok {
			return kinds, e.Name
		}
	}
	return nil, ""
}
