package routes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// cniFile is the one that container runtimes take where no other has a lower name.
const cniFile = "10-ccmadm.conflist"

// The CNI configuration, with the fields that are used of each plugin.
type (
	cniConfig struct {
		Version string      `json:"cniVersion"`
		Name    string      `json:"name"`
		Plugins []cniPlugin `json:"plugins"`
	}
	cniPlugin struct {
		Type         string          `json:"type"`
		MTU          int             `json:"mtu,omitempty"`
		IPAM         *cniIPAM        `json:"ipam,omitempty"`
		Capabilities map[string]bool `json:"capabilities,omitempty"`
	}
	cniIPAM struct {
		Type   string       `json:"type"`
		Ranges [][]cniRange `json:"ranges"`
		Routes []cniRoute   `json:"routes"`
	}
	cniRange struct {
		Subnet string `json:"subnet"`
	}
	cniRoute struct {
		Destination string `json:"dst"`
	}
)

// cniConfiguration connects every pod with the machine by a pair of interfaces of its own, and gives it addresses of
// the Node's ranges. There is no bridge between them: what a pod answers passes the machine's connection tracking even
// if the other one is on the same machine, so that Services work where br_netfilter is not loaded (docs/adr/0019).
func cniConfiguration(ranges []netip.Prefix, mtu int) ([]byte, error) {
	ipam := &cniIPAM{Type: "host-local"}
	for _, p := range ranges {
		everywhere := "0.0.0.0/0"
		if p.Addr().Is6() {
			everywhere = "::/0"
		}
		ipam.Ranges = append(ipam.Ranges, []cniRange{{p.String()}})
		ipam.Routes = append(ipam.Routes, cniRoute{everywhere})
	}
	data, err := json.MarshalIndent(cniConfig{
		Version: "1.0.0", Name: "ccmadm",
		Plugins: []cniPlugin{
			{Type: "ptp", MTU: mtu, IPAM: ipam},
			{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the CNI configuration: %w", err)
	}
	return append(data, '\n'), nil
}

// writeCNI puts the configuration in place, at once and if it differs. Beside another one it does not: that has its own
// network. wrote reports whether the file changed.
func writeCNI(dir string, content []byte) (wrote bool, err error) {
	for _, pattern := range []string{"*.conf", "*.conflist", "*.json"} { // those that libcni reads
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return false, fmt.Errorf("look for CNI configurations in %s: %w", dir, err)
		}
		for _, file := range found {
			if filepath.Base(file) != cniFile {
				return false, fmt.Errorf("write %s: %s is there, which is another network's", cniFile, file)
			}
		}
	}
	path := filepath.Join(dir, cniFile)
	old, err := os.ReadFile(path)
	if err == nil && string(old) == string(content) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the CNI configuration: %w", err)
	}
	if err := renameio.WriteFile(path, content, 0o644); err != nil {
		return false, fmt.Errorf("write the CNI configuration: %w", err)
	}
	return true, nil
}
