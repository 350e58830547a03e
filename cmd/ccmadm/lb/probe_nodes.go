package lb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// namesTimeout is short: who asks the network itself may do so because the cluster does not answer.
const namesTimeout = 3 * time.Second

// answer is a machine that answers, with the Nodes that have its MAC.
type answer struct {
	machine.Neighbour
	Nodes []string `json:"nodes,omitempty"`
}

// asker asks the network for an address.
type asker func(context.Context, netip.Addr) ([]machine.Neighbour, error)

// answers adds names of Nodes to those who answer, and says why there are none.
func answers(
	ctx context.Context, o *observer.Cluster, s workflow.Streams, ifi *net.Interface, found []machine.Neighbour,
) []answer {
	machines, err := readMachines(ctx, o, s)
	if err != nil {
		fmt.Fprintf(s.Err, "ccmadm: note: the cluster was not asked for names of Nodes: %v\n", err)
	}
	ask := func(ctx context.Context, addr netip.Addr) ([]machine.Neighbour, error) {
		return machine.AskNeighbours(ctx, ifi, addr)
	}
	list, err := named(ctx, found, machines, ask)
	if err != nil {
		fmt.Fprintf(s.Err, "ccmadm: note: control planes without an agent were not told apart: %v\n", err)
	}
	return list
}

// readMachines reads whose MACs are whose. It returns nil and no error where no kubeconfig is to be found: none is needed.
func readMachines(ctx context.Context, o *observer.Cluster, s workflow.Streams) (*network.Machines, error) {
	if *o.Flags.KubeConfig == "" && *o.Flags.APIServer == "" {
		if _, err := os.Stat(workflow.FindKubeconfig("", s.Getenv)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // there is no cluster to ask
		}
	}
	config, err := o.Config(s)
	if err != nil {
		return nil, err
	}
	config.Timeout = namesTimeout
	ctx, cancel := context.WithTimeout(ctx, namesTimeout)
	defer cancel()
	reader, err := network.NewReader(config)
	if err != nil {
		return nil, err
	}
	return network.ReadMachines(ctx, reader)
}

// named gives the Nodes' names to those who answer. For a MAC that no agent reports it asks the network for the
// addresses of control planes that have no agent; if that fails, names are missing.
func named(ctx context.Context, found []machine.Neighbour, m *network.Machines, ask asker) ([]answer, error) {
	list := make([]answer, 0, len(found))
	unknown := func(n machine.Neighbour) bool { return len(m.Nodes[n.MAC]) == 0 }
	var err error
	if m != nil && slices.ContainsFunc(found, unknown) {
		err = askUnreported(ctx, m, ask)
	}
	for _, n := range found {
		a := answer{Neighbour: n}
		if m != nil {
			a.Nodes = m.Nodes[n.MAC]
		}
		list = append(list, a)
	}
	return list, err
}

func askUnreported(ctx context.Context, m *network.Machines, ask asker) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for node, addresses := range m.Unreported {
		for _, text := range addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue // a kubelet's mistake, and only a name is missing
			}
			group.Go(func() error {
				found, err := ask(ctx, addr)
				mu.Lock()
				defer mu.Unlock()
				for _, n := range found {
					m.Add(n.MAC, node)
				}
				return err
			})
		}
	}
	return group.Wait()
}

// interfaceWith is the name of this machine's interface that has the address, or empty.
func interfaceWith(addr netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list interfaces: %w", err)
	}
	for i := range all {
		addresses, err := all[i].Addrs()
		if err != nil {
			return "", fmt.Errorf("list addresses of %s: %w", all[i].Name, err)
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().WithZone("") == addr {
				return all[i].Name, nil
			}
		}
	}
	return "", nil
}
