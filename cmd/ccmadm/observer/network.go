package observer

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Network looks at what the cluster's load balancers and routes are.
func (o *Cluster) Network(ctx context.Context, s workflow.Streams) (*network.Snapshot, error) {
	return ReadNetwork(ctx, o, s, network.Read)
}

// ReadNetwork reads a part of the network in the time that a command has for it.
func ReadNetwork[T any](
	ctx context.Context, o *Cluster, s workflow.Streams, read func(context.Context, client.Reader) (*T, error),
) (*T, error) {
	config, err := o.Config(s)
	if err != nil {
		return nil, err
	}
	reader, err := network.NewReader(config)
	if err != nil {
		return nil, Asked(err)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	part, err := read(ctx, reader)
	return part, Asked(err)
}

// Look is what a command does that shows the network: what it says of it is up to show.
func (o *Cluster) Look(s workflow.Streams, show func(*network.Snapshot) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := o.Output.Check(); err != nil {
			return err
		}
		snapshot, err := o.Network(cmd.Context(), s)
		if err != nil {
			return err
		}
		return show(snapshot)
	}
}
