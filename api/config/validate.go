package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/redact"
)

// Validate returns everything that is wrong with what is set, by field path. Unset fields are fine. A record is asked less:
// one of an earlier release may have credentials in it.
func (c *CloudConfiguration) Validate() field.ErrorList {
	errs := c.ControllerManager.withoutCredentials(field.NewPath("controllerManager"))
	if strings.Contains(c.Inventory, "://") && redact.Text(c.Inventory) != c.Inventory {
		errs = append(errs, field.Forbidden(field.NewPath("inventory"), "an address with a credential"))
	}
	return append(c.ValidateAt(nil), errs...)
}

// ValidateAt is Validate for a configuration that is a field of another document, at path. It does not look for credentials.
func (c *CloudConfiguration) ValidateAt(path *field.Path) field.ErrorList {
	errs := oneOf(childOf(path, "mode"), c.Mode, ModeAuto, ModeStaticPod, ModeDaemonSet, ModeDeployment, ModeManual)
	errs = append(errs, oneOf(childOf(path, "lifecycle"), c.Lifecycle, LifecycleGuarded, LifecycleOff)...)
	if c.ClusterName != "" {
		for _, msg := range validation.IsDNS1123Subdomain(c.ClusterName) {
			errs = append(errs, field.Invalid(childOf(path, "clusterName"), redact.Text(c.ClusterName), msg))
		}
	}
	if err := validateNodeIP(c.NodeIP); err != nil {
		errs = append(errs, field.Invalid(childOf(path, "nodeIP"), redact.Text(c.NodeIP), redact.Text(err.Error())))
	}
	errs = append(errs, c.ControlPlaneVIP.validate(childOf(path, "controlPlaneVIP"))...)
	errs = append(errs, c.ServingCertificates.validate(childOf(path, "servingCertificates"))...)
	if c.Wait.Timeout.Duration < 0 {
		at := childOf(path, "wait").Child("timeout")
		errs = append(errs, field.Invalid(at, c.Wait.Timeout.Duration.String(), "must not be negative"))
	}
	errs = append(errs, c.ControllerManager.validate(childOf(path, "controllerManager"))...)
	for i, cred := range c.Credentials {
		errs = append(errs, cred.validate(childOf(path, "credentials").Index(i))...)
	}
	return errs
}

func (m *ControllerManager) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Image != "" && m.Version != "" {
		errs = append(errs, field.Forbidden(path.Child("version"), "image names its own tag"))
	}
	shown := slices.Clone(m.ExtraArgs)
	redact.Args(shown) // a value may be an argument of its own
	for i, arg := range m.ExtraArgs {
		if !isFlagValue(arg) {
			errs = append(errs, field.Invalid(path.Child("extraArgs").Index(i), shown[i], "must have the form --flag=value"))
		}
	}
	for i, env := range m.ExtraEnv {
		name, _, ok := strings.Cut(env, "=")
		if msgs := validation.IsEnvVarName(name); !ok || len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child("extraEnv").Index(i), name, "must have the form NAME=value"))
		}
	}
	return errs
}

func (c *Credential) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(c.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), c.Key, msg))
	}
	if (c.File == "") == (c.Env == "") {
		errs = append(errs, field.Required(path, "exactly one of file and env"))
	}
	return errs
}

// oneOf refuses a value that is set and is none of those allowed.
func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
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
