//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/renameio/v2"
)

// lab is a set of machines on one switch. Its folder is the record of all that was made: whatever a crashed `up` left
// behind is found from there.
type lab struct {
	name string
	dir  string
}

// settings is what `up` decided once for all machines of a lab.
type settings struct {
	Kubernetes string   `json:"kubernetes"`
	Layers     []string `json:"layers"`    // overlay lower directories, top first
	Seed       string   `json:"seed"`      // content of /var/lib/containerd
	Endpoints  string   `json:"endpoints"` // the API servers behind the name api
	IPFamily   string   `json:"ipFamily"`  // ipv4, ipv6 or dual
}

func openLab(p *places, name string) (lab, error) {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`).MatchString(name) {
		return lab{}, fmt.Errorf("lab name %q: want up to 20 lower case letters, digits and dashes", name)
	}
	return lab{name: name, dir: filepath.Join(p.state, name)}, nil
}

// existingLab is openLab for commands that need machines.
func existingLab(p *places, name string) (lab, error) {
	l, err := openLab(p, name)
	if err != nil {
		return lab{}, err
	}
	if err := requireRoot(); err != nil {
		return lab{}, err
	}
	if _, err := os.Stat(l.dir); err != nil {
		return lab{}, fmt.Errorf("no lab %q: start it with: lab up --name %s", name, name)
	}
	return l, nil
}

// allLabs returns the labs that have a folder.
func allLabs(p *places) ([]lab, error) {
	entries, err := os.ReadDir(p.state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var labs []lab
	for _, e := range entries {
		if l, err := openLab(p, e.Name()); err == nil && e.IsDir() {
			labs = append(labs, l)
		}
	}
	return labs, nil
}

// subnet is derived from the name, so that addresses in logs tell labs apart. A collision does no harm: labs do not
// see each other.
func (l lab) subnet() netip.Prefix {
	h := fnv.New32a()
	h.Write([]byte(l.name))
	n := h.Sum32() % 512
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18 + byte(n>>8), byte(n), 0}), 24)
}

// host returns an address of the lab by its last byte; 1 is the switch.
func (l lab) host(n int) netip.Addr {
	a := l.subnet().Addr().As4()
	a[3] = byte(n)
	return netip.AddrFrom4(a)
}

// machines returns the machines that have a folder, in the order of their addresses.
func (l lab) machines() ([]machine, error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, "machines"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []machine
	for _, e := range entries {
		m, err := l.machine(e.Name())
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	slices.SortFunc(found, func(a, b machine) int { return a.address().Compare(b.address()) })
	return found, nil
}

// running returns the machines that are switched on.
func (l lab) running() ([]machine, error) {
	all, err := l.machines()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m machine) bool { return m.pid() == 0 }), nil
}

func (l lab) load() (settings, error) {
	var s settings
	content, err := os.ReadFile(filepath.Join(l.dir, "lab.json"))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, &s)
}

func (l lab) save(s settings) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(l.dir, "lab.json"), append(content, '\n'), 0o644)
}
