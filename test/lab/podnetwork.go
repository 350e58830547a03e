//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
)

func newNetwork(p *places) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "network",
		Short: "Connect the pods of all nodes: a bridge on each machine and one static route per node",
		Long: "Reads the podCIDR of every node and writes the CNI configuration and the routes of every machine that runs.\n" +
			"Run it again after a join; what is right already stays.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := existingLab(p, name)
			if err != nil {
				return err
			}
			return l.connectPods(cmd.Context(), cmd.OutOrStdout())
		},
	}
	addName(cmd, &name)
	return cmd
}

func (l lab) connectPods(ctx context.Context, out io.Writer) error {
	machines, err := l.running()
	if err != nil {
		return err
	}
	s, err := l.load()
	if err != nil {
		return err
	}
	ranges, err := allPodRanges(ctx, machines, func(n *corev1.Node) string { return l.machineOf(s, machines, n) })
	if err != nil {
		return err
	}
	for _, m := range machines {
		own, ok := ranges[m.name]
		if !ok {
			continue // not a node yet
		}
		if err := m.writeNetwork(ctx, own, l.routes(s, m, ranges)); err != nil {
			return fmt.Errorf("connect pods of %s: %w", m.name, err)
		}
		fmt.Fprintf(out, "[network] pods of %s have addresses from %s\n", m.name, strings.Join(own, " and "))
	}
	return nil
}

// machineOf is the machine of a Node, which may have another name: that of its address.
func (l lab) machineOf(s settings, machines []machine, n *corev1.Node) string {
	for _, m := range machines {
		for _, own := range l.addresses(s, m.index) {
			if slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == own.Addr().String() }) {
				return m.name
			}
		}
	}
	return n.Name
}

// rangesWithin is how long kube-controller-manager may take to give the last Node a podCIDR.
const rangesWithin = time.Minute

// allPodRanges waits for Nodes that have just joined: kube-controller-manager gives a Node its podCIDR after the join has ended.
// Where it gives none, those that are there are returned.
func allPodRanges(
	ctx context.Context, machines []machine, machineOf func(*corev1.Node) string,
) (map[string][]string, error) {
	for deadline := time.Now().Add(rangesWithin); ; {
		ranges, missing, err := podRanges(ctx, machines, machineOf)
		if err != nil || missing == 0 || len(ranges) == 0 || time.Now().After(deadline) {
			return ranges, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// podRanges asks the first control plane that answers for the podCIDR of each machine's Node, and says how many Nodes have none.
func podRanges(
	ctx context.Context, machines []machine, machineOf func(*corev1.Node) string,
) (ranges map[string][]string, missing int, err error) {
	err = errors.New("no control plane runs")
	for _, m := range machines {
		if !strings.HasPrefix(m.name, "cp") {
			continue
		}
		cmd := m.command(ctx, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "--request-timeout=10s", "get", "nodes", "--output=json")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		content, runErr := cmd.Output()
		if runErr != nil {
			err = fmt.Errorf("list nodes on %s: %w: %s", m.name, runErr, strings.TrimSpace(stderr.String()))
			continue
		}
		var nodes corev1.NodeList
		if err := json.Unmarshal(content, &nodes); err != nil {
			return nil, 0, fmt.Errorf("decode nodes: %w", err)
		}
		ranges = map[string][]string{}
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if len(n.Spec.PodCIDRs) > 0 {
				ranges[machineOf(n)] = n.Spec.PodCIDRs
			} else {
				missing++
			}
		}
		return ranges, missing, nil
	}
	return nil, 0, err
}

// routes is a script for `ip -batch` that leads to the pods of all machines but one.
func (l lab) routes(s settings, self machine, ranges map[string][]string) string {
	var b strings.Builder
	for n := 1; n < 255; n++ { // in the order of addresses, so that nothing changes without need
		for name, podRanges := range ranges {
			if m, err := l.machine(name); err != nil || m.index != n || m.name == self.name {
				continue
			}
			for _, podRange := range podRanges {
				to, err := netip.ParsePrefix(podRange)
				if via := gateway(l.addresses(s, n), to.Addr()); err == nil && via.IsValid() {
					fmt.Fprintf(&b, "route replace %s via %s\n", podRange, via)
				}
			}
		}
	}
	return b.String()
}

const networkConfig = `{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [%s], "routes": [%s]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// writeNetwork hands the routes to a unit of the machine, which sets them again when it boots.
func (m machine) writeNetwork(ctx context.Context, podRanges []string, routes string) error {
	const script = `set -e
mkdir -p /etc/cni/net.d
printf %s "$1" > /etc/lab/routes
systemctl restart lab-routes.service
printf %s "$2" > /etc/cni/net.d/.lab.new
mv /etc/cni/net.d/.lab.new /etc/cni/net.d/10-lab.conflist`
	var subnets, defaults []string
	for _, podRange := range podRanges {
		subnets = append(subnets, fmt.Sprintf(`[{"subnet": %q}]`, podRange))
		everywhere := "0.0.0.0/0"
		if strings.Contains(podRange, ":") {
			everywhere = "::/0"
		}
		defaults = append(defaults, fmt.Sprintf(`{"dst": %q}`, everywhere))
	}
	config := fmt.Sprintf(networkConfig, strings.Join(subnets, ", "), strings.Join(defaults, ", "))
	out, err := m.command(ctx, "sh", "-c", script, "sh", routes, config).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
