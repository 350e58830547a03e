package conformance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/provider"
	"github.com/ccmadm/ccmadm/provider/conformance"
)

// Without an inventory, every machine is served as it presents itself.
func TestCluster_OnPrem(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers %d", workers), func(t *testing.T) {
			conformance.Run(t, conformance.Options{Config: plane.Config, Workers: workers, New: func() (conformance.Cloud, error) {
				cloud, err := provider.New(nil)
				return conformance.Cloud{Provider: cloud}, err
			}})
		})
	}
}

// With one, the cloud is a file, in which machines are listed, switched off, renamed and decommissioned, and which may
// be gone or be something else. A Node goes after the least times that the lifecycle guard can be set to.
func TestCluster_OnPremWithInventory(t *testing.T) {
	t.Parallel() // most of it is waiting for the guard
	config := ownPlane(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	serial := 0
	conformance.Run(t, conformance.Options{Config: config, Patience: 5 * time.Minute, New: func() (conformance.Cloud,
		error,
	) {
		// Every rule has a new cloud; the last good inventory is that of the rule before. If that is being written just
		// now, and comes back, a serial that goes on growing makes it an old one.
		err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(t.Context(), "ccmadm-machines-last-good",
			metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return conformance.Cloud{}, err
		}
		return newSite(filepath.Join(t.TempDir(), "machines.yaml"), &serial)
	}})
}

// site is an inventory in a file.
type site struct {
	path string

	mu       sync.Mutex
	serial   *int
	machines []conformance.Machine
	off      map[string]bool
	gone     map[string]bool
	names    map[string]string
}

func newSite(path string, serial *int) (conformance.Cloud, error) {
	s := &site{path: path, serial: serial, off: map[string]bool{}, gone: map[string]bool{}, names: map[string]string{}}
	cloud, err := provider.New(strings.NewReader(
		"apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: {file: " +
			"" + path + ", interval: 1s, maxLossPercent: 100, silence: 1m, deletionDelay: 1s}\n"))
	return conformance.Cloud{
		Provider: cloud,
		Add: func(m conformance.Machine) error {
			return s.change(func() { s.machines = append(s.machines, m) })
		},
		Remove: func(m conformance.Machine) error { return s.change(func() { s.gone[m.Name] = true }) },
		Rename: func(m conformance.Machine, name string) error { return s.change(func() { s.names[m.Name] = name }) },
		Stop:   func(m conformance.Machine) error { return s.change(func() { s.off[m.Name] = true }) },
		Start:  func(m conformance.Machine) error { return s.change(func() { delete(s.off, m.Name) }) },
		Faults: map[conformance.Fault]func(bool){
			conformance.Forbidden:   s.instead(""),
			conformance.Unavailable: s.instead("<html>502 Bad Gateway</html>"),
			conformance.WrongProject: s.instead("apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: " +
				"elsewhere, serial: 999}\nmachines: [{id: other}]\n"),
		},
	}, err
}

// change edits the inventory and writes it.
func (s *site) change(edit func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
	return s.write()
}

func (s *site) write() error {
	*s.serial++
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1, serial: %d}\npolicy: "+
		"{unknownNodes: hold}\nmachines:\n", *s.serial)
	for n, m := range s.machines {
		name, power, state := m.Name, "on", "active"
		if other := s.names[m.Name]; other != "" {
			name = other
		}
		if s.off[m.Name] {
			power = "off"
		}
		if s.gone[m.Name] {
			state = "decommissioned"
		}
		fmt.Fprintf(&text, "- {id: m%d, hostname: %s, state: %s, power: {state: %q}, match: {systemUUID: %s}, addresses: "+
			"[", n, name, state, power, m.UUID)
		for _, address := range m.Addresses {
			fmt.Fprintf(&text, "{type: %s, address: %q},", address.Type, address.Address)
		}
		text.WriteString("]}\n")
	}
	return s.put(text.String())
}

// put replaces the file at once.
func (s *site) put(text string) error {
	if err := os.WriteFile(s.path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}

// instead is a fault: the file says something else, or has gone.
func (s *site) instead(text string) func(bool) {
	return func(on bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !on:
			_ = s.write()
		case text == "":
			_ = os.Remove(s.path)
		default:
			_ = s.put(text)
		}
	}
}
