package v1alpha1

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns everything that is wrong with what is set, by field path. Unset fields are fine.
func (c *CloudConfiguration) Validate() field.ErrorList {
	var errs field.ErrorList
	oneOf := func(name, value string, allowed ...string) {
		if value != "" && !slices.Contains(allowed, value) {
			errs = append(errs, field.NotSupported(field.NewPath(name), value, allowed))
		}
	}
	oneOf("mode", string(c.Mode), string(ModeAuto), string(ModeStaticPod), string(ModeDaemonSet), string(ModeDeployment), string(ModeManual))
	oneOf("lifecycle", string(c.Lifecycle), string(LifecycleGuarded), string(LifecycleOff))
	if c.ClusterName != "" {
		for _, msg := range validation.IsDNS1123Subdomain(c.ClusterName) {
			errs = append(errs, field.Invalid(field.NewPath("clusterName"), c.ClusterName, msg))
		}
	}
	if err := validateNodeIP(c.NodeIP); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("nodeIP"), c.NodeIP, err.Error()))
	}
	if c.Wait.Timeout.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("wait", "timeout"), c.Wait.Timeout.Duration.String(), "must not be negative"))
	}
	return append(errs, c.validateControllerManager(field.NewPath("controllerManager"))...)
}

func (c *CloudConfiguration) validateControllerManager(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.ControllerManager.Image != "" && c.ControllerManager.Version != "" {
		errs = append(errs, field.Forbidden(path.Child("version"), "image names its own tag"))
	}
	for i, arg := range c.ControllerManager.ExtraArgs {
		if !isFlagValue(arg) {
			errs = append(errs, field.Invalid(path.Child("extraArgs").Index(i), arg, "must have the form --flag=value"))
		}
	}
	for i, env := range c.ControllerManager.ExtraEnv {
		name, _, ok := strings.Cut(env, "=")
		if msgs := validation.IsEnvVarName(name); !ok || len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child("extraEnv").Index(i), name, "must have the form NAME=value"))
		}
	}
	for i, cred := range c.Credentials {
		at := field.NewPath("credentials").Index(i)
		for _, msg := range validation.IsConfigMapKey(cred.Key) {
			errs = append(errs, field.Invalid(at.Child("key"), cred.Key, msg))
		}
		if (cred.File == "") == (cred.Env == "") {
			errs = append(errs, field.Required(at, "exactly one of file and env"))
		}
	}
	return errs
}

func validateNodeIP(policy string) error {
	if policy == "" || policy == NodeIPAuto || policy == NodeIPDefault {
		return nil
	}
	if _, err := netip.ParsePrefix(policy); err == nil {
		return nil
	}
	_, err := ParseAddresses(policy)
	return err
}

// isFlagValue tells whether an argument has the only form that cannot be joined with its neighbour by mistake.
func isFlagValue(arg string) bool {
	name, _, ok := strings.Cut(arg, "=")
	return ok && len(name) > 2 && strings.HasPrefix(name, "--")
}

// ParseAddresses reads one address, or one of each family, comma separated.
func ParseAddresses(list string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for s := range strings.SplitSeq(list, ",") {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("want %s, %s, an address, a pair of addresses or a CIDR: %w", NodeIPAuto, NodeIPDefault, err)
		}
		addrs = append(addrs, addr)
	}
	if len(addrs) > 2 || (len(addrs) == 2 && addrs[0].Is4() == addrs[1].Is4()) {
		return nil, errors.New("want one address, or one of each family")
	}
	return addrs, nil
}
