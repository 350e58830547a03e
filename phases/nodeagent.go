package phases

import (
	"context"
	"crypto/rand"

	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/templates"
)

func nodeAgent() Phase {
	return Phase{
		Name:   "node-agent",
		Shared: true,
		Short:  "Define address pools and BGP peers, and run the node agent where it is wanted",
		Long: `Reads the profile and the settings. Writes, for a provider that has a node agent, the definitions of AddressPool, BGPPeer,
NodeAgent and NodeRoutes; with --node-agent or routes also its ServiceAccount, its permissions, an admission policy that lets each
agent write the report of its own node only, the DaemonSet kube-system/` + v1alpha1.AgentName + `, and a Secret of that name
with a random key, which is made once and never printed.`,
		Only: managedModes(),
		Run: func(ctx context.Context, d *Data) error {
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			v, err := values(d, s, nil)
			if err != nil || s.Profile.NodeAgent == nil {
				return err
			}
			if v.Endpoint, err = endpointForPods(d); err != nil {
				return err
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
			if err := applySet(ctx, d, apply.NodeAgent, machine.AdminConf, objects); err != nil {
				return err
			}
			return sayLostPools(ctx, d)
		},
	}
}

// wantsNodeAgent says whether the agent is to run: it was asked for, or routes need it.
func (s *Settings) wantsNodeAgent() bool {
	return s.Profile.NodeAgent != nil && ptr.Deref(s.NodeAgent.Enabled, s.WantsRoutes())
}

// agentCompatible refuses an agent that the provider has not, and a provider's routes without the agent that sets them.
func agentCompatible(settings *v1alpha1.CloudConfiguration, profile *templates.Profile) error {
	switch wanted := settings.NodeAgent.Enabled; {
	case wanted == nil:
		return nil
	case *wanted && profile.NodeAgent == nil:
		return finding.Usagef("nodeAgent: provider %s has no node agent; its cloud-controller-manager makes load balancers in the cloud", profile.Name).
			WithHint("leave --node-agent out; `ccmadm provider show %s` says what the provider does", profile.Name)
	case *wanted && settings.Mode == v1alpha1.ModeManual:
		return finding.Usagef("nodeAgent: in mode %s nothing of the provider is brought by ccmadm", settings.Mode).
			WithHint("ccmadm render --provider %s --node-agent --cluster-name NAME prints what to apply", profile.Name)
	case !*wanted && profile.NodeAgent != nil && settings.WantsRoutes():
		return finding.Usagef("routes: provider %s sets them with the node agent, which nodeAgent.enabled switches off", profile.Name).
			WithHint("leave nodeAgent.enabled out, or set routes to false")
	}
	return nil
}

// recordNodeAgent writes down the image that runs: a later run of another release changes the manager's and the agent's
// together, or neither.
func recordNodeAgent(d *Data, s *Settings, rec *v1alpha1.Record) error {
	if !s.wantsNodeAgent() || s.Mode == v1alpha1.ModeManual {
		return nil
	}
	v, err := values(d, s, nil)
	if err != nil {
		return err
	}
	rec.Configuration.NodeAgent.Enabled = new(true)
	rec.Configuration.NodeAgent.Image, err = s.Profile.NodeAgentImage(v)
	return err
}
