package settings

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// refuseCredentials finds a variable that refers to a credential where none can be read.
func refuseCredentials(c *config.CloudConfiguration) error {
	if c.Mode != config.ModeStaticPod {
		return nil
	}
	for _, env := range c.ControllerManager.ExtraEnv {
		name, value, _ := strings.Cut(env, "=")
		if key, refers := config.CredentialOf(value); refers {
			return finding.Usagef("controllerManager.extraEnv: a static pod cannot read %s from a Secret, and its manifest would "+
				"show it to all who may see pods", name).
				WithHint("--mode DaemonSet or Deployment, or credentials: [{key: %s, file: FILE}] alone where the provider reads files", key)
		}
	}
	return nil
}

// WantsNodeAgent says whether the agent is to run: it was asked for, or routes need it.
func (s *Settings) WantsNodeAgent() bool {
	return s.Profile.NodeAgent != nil && ptr.Deref(s.NodeAgent.Enabled, s.WantsRoutes())
}

// agentCompatible refuses an agent that the provider has not, and a provider's routes without the agent that sets them.
func agentCompatible(settings *config.CloudConfiguration, profile *templates.Profile) error {
	switch wanted := settings.NodeAgent.Enabled; {
	case wanted == nil:
		return nil
	case *wanted && profile.NodeAgent == nil:
		return finding.Usagef("nodeAgent: provider %s has no node agent; its cloud-controller-manager makes load balancers in the cloud", profile.Name).
			WithHint("leave --node-agent out; `ccmadm provider show %s` says what the provider does", profile.Name)
	case *wanted && settings.Mode == config.ModeManual:
		return finding.Usagef("nodeAgent: in mode %s nothing of the provider is brought by ccmadm", settings.Mode).
			WithHint("ccmadm render --provider %s --node-agent --cluster-name NAME prints what to apply", profile.Name)
	case !*wanted && profile.NodeAgent != nil && settings.WantsRoutes():
		return finding.Usagef("routes: provider %s sets them with the node agent, which nodeAgent.enabled switches off", profile.Name).
			WithHint("leave nodeAgent.enabled out, or set routes to false")
	}
	return nil
}

// Compatible refuses settings that the profile has no answer to.
func Compatible(settings *config.CloudConfiguration, profile *templates.Profile) error {
	if !profile.Has(templates.Nodes) {
		return finding.Usagef("provider %s serves %s only: nothing of it takes the uninitialized taint away, so a cluster must not be in external mode for it alone", profile.Name, inWords(profile.Features, "and")).
			WithHint("init with another provider, then beside it: ccmadm render --provider %s --cluster-name NAME | kubectl apply --server-side -f -", profile.Name)
	}
	for _, name := range profile.UserArgs {
		if !slices.ContainsFunc(settings.ControllerManager.ExtraArgs, func(arg string) bool { return strings.HasPrefix(arg, name+"=") }) && settings.Mode != config.ModeManual {
			return finding.Usagef("controllerManager.extraArgs: provider %s needs %s=VALUE", profile.Name, name).
				WithHint("a document in the file of --config: {apiVersion: %s, kind: %s, provider: %s, controllerManager: {image: IMAGE, extraArgs: [%s=VALUE]}}", v1alpha1.APIVersion, config.ConfigKind, profile.Name, name)
		}
	}
	if err := refuseCredentials(settings); err != nil {
		return err
	}
	if err := vipCompatible(settings, profile); err != nil {
		return err
	}
	if err := agentCompatible(settings, profile); err != nil {
		return err
	}
	if err := servingCompatible(settings, profile); err != nil {
		return err
	}
	if settings.WantsRoutes() && !profile.Has(templates.Routes) {
		return finding.Usagef("routes: provider %s programs no routes", profile.Name).
			WithHint("set routes to false and install a CNI plugin")
	}
	if mode := settings.Mode; mode != config.ModeManual && !profile.Supports(templates.Mode(mode)) {
		return finding.Usagef("mode: provider %s runs as %s, not as %s", profile.Name, inWords(profile.Modes, "or"), mode).
			WithHint("--mode %s, or leave the mode out", profile.Modes[0])
	}
	return nil
}

// servingCompatible refuses what ccmadm does not bring, and what would approve nothing.
func servingCompatible(settings *config.CloudConfiguration, profile *templates.Profile) error {
	switch {
	case settings.WantsServingCertificates() && settings.Mode == config.ModeManual:
		return finding.Usagef("servingCertificates: in mode %s nothing of the provider is brought by ccmadm", settings.Mode).
			WithHint("ccmadm render --provider %s --serving-certificates --cluster-name NAME prints what to apply", profile.Name)
	case settings.WantsServingCertificates() && len(settings.ServingCertificates.AddressRanges) == 0 && !profile.ApprovesItself():
		return finding.Usagef("servingCertificates: with provider %s an address counts only within servingCertificates."+
			"addressRanges, and there are none", profile.Name).
			WithHint("name those of the machines in a CloudConfiguration: servingCertificates: {enabled: true, addressRanges: [192.0.2.0/24]}")
	}
	return nil
}

// inWords is for people: a, b and c.
func inWords[T ~string](values []T, and string) string {
	var b strings.Builder
	for i, value := range values {
		switch {
		case i > 0 && i == len(values)-1:
			b.WriteString(" " + and + " ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(value))
	}
	return b.String()
}

// VIPWhole refuses what flags and a document say together, which neither says alone.
func VIPWhole(vip config.ControlPlaneVIP) error {
	switch {
	case vip.BGP != nil && vip.Address == "":
		return finding.Usagef("controlPlaneVIP.bgp: there is no address to announce").
			WithHint("controlPlaneVIP.address, or --control-plane-vip, names one")
	case vip.BGP != nil && vip.Interface != "":
		return finding.Usagef("controlPlaneVIP.interface %q: with bgp no machine answers for the address on an interface",
			vip.Interface).WithHint("leave --control-plane-vip-interface out")
	}
	return nil
}

// vipCompatible refuses an address where nobody would hold it.
func vipCompatible(settings *config.CloudConfiguration, profile *templates.Profile) error {
	switch {
	case settings.ControlPlaneVIP.Address == "":
		return nil
	case profile.NodeAgent == nil:
		return finding.Usagef("controlPlaneVIP: provider %s has no node agent that could hold the address", profile.Name).
			WithHint("use a load balancer of the cloud as controlPlaneEndpoint")
	case settings.Mode == config.ModeManual:
		return finding.Usagef("controlPlaneVIP: in mode %s nothing of the provider is brought by ccmadm", settings.Mode).
			WithHint("another --mode, or an address that you hold yourself")
	}
	return nil
}
