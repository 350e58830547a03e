package manager

import (
	"context"
	"crypto/rand"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// NodeAgent applies the node agent, or removes it where it is not wanted.
func NodeAgent() workflow.Phase {
	return workflow.Phase{
		Name:   "node-agent",
		Shared: true,
		Short:  "Define address pools and BGP peers, and run the node agent where it is wanted",
		Long: `Reads the profile and the settings. Writes, for a provider that has a node agent, the definitions of AddressPool, BGPPeer,
NodeAgent, NodeAgentLease, NodeAnnouncements and NodeRoutes; with --node-agent or routes also its ServiceAccount, its
permissions, an admission policy that lets each agent write the report of its own node only, the DaemonSet kube-system/` + v1alpha1.AgentName + `, and a Secret of that name
with a random key, which is made once and never printed.`,
		Only: workflow.ManagedModes(),
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			v, err := values(r.Host, s, nil)
			if err != nil || s.Profile.NodeAgent == nil {
				return err
			}
			if v.NodeAgent {
				if v.Endpoint, err = workflow.ControlPlaneEndpoint(ctx, r.Host); err != nil {
					return err
				}
			}
			objects, err := manifests.NodeAgent(s.Profile, v)
			if err != nil {
				return err
			}
			if v.NodeAgent {
				key := make([]byte, manifests.HeartbeatKeySize)
				_, _ = rand.Read(key) // it never fails, as of Go 1.24
				secret, err := manifests.HeartbeatSecret(key)
				if err != nil {
					return err
				}
				objects = append(objects, secret)
			}
			if err := workflow.ApplySet(ctx, r.Env, apply.NodeAgent, machine.AdminConf, objects); err != nil {
				return err
			}
			return sayLostPools(ctx, r.Env)
		},
	}
}

// recordNodeAgent writes down the image that runs: a later run of another release changes the manager's and the agent's
// together, or neither.
func recordNodeAgent(h *workflow.Host, s *settings.Settings, rec *state.Record) error {
	if !s.WantsNodeAgent() || s.Mode == config.ModeManual {
		return nil
	}
	v, err := values(h, s, nil)
	if err != nil {
		return err
	}
	rec.Configuration.NodeAgent.Enabled = new(true)
	rec.Configuration.NodeAgent.Image, err = s.Profile.NodeAgentImage(v)
	return err
}
