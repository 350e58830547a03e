package config

import (
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Resolve makes file names absolute, since later phases run in other directories.
func (c *CloudConfiguration) Resolve(dir string) {
	abs := func(p *string) {
		if *p == "" || filepath.IsAbs(*p) || strings.Contains(*p, "://") { // an address is no path, and is judged as it is
			return
		}
		if full, err := filepath.Abs(filepath.Join(dir, *p)); err == nil {
			*p = full
		}
	}
	abs(&c.Profile)
	abs(&c.CloudConfig.File)
	abs(&c.Inventory)
	for i := range c.Credentials {
		abs(&c.Credentials[i].File)
	}
}

// Default fills what the user left open.
func (c *CloudConfiguration) Default() {
	c.APIVersion, c.Kind = v1alpha1.APIVersion, ConfigKind
	if c.Profile == "" {
		setDefault(&c.Provider, "onprem")
	}
	setDefault(&c.Mode, ModeAuto)
	setDefault(&c.NodeIP, NodeIPAuto)
	setDefault(&c.Lifecycle, LifecycleGuarded)
	if c.Routes == nil {
		c.Routes = new(false)
	}
	setDefault(&c.Wait.Timeout, metav1.Duration{Duration: 5 * time.Minute})
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Override lays what is set in other over c: a flag over the file, the file over an earlier phase's settings.
func (c *CloudConfiguration) Override(other *CloudConfiguration) {
	override(&c.Provider, other.Provider)
	override(&c.Profile, other.Profile)
	override(&c.ClusterName, other.ClusterName)
	override(&c.Mode, other.Mode)
	if given := other.ControllerManager; given.Image != "" || given.Version != "" { // either says which image
		c.ControllerManager.Image, c.ControllerManager.Version = given.Image, given.Version
	}
	if other.ControllerManager.ExtraEnv != nil {
		c.ControllerManager.ExtraEnv = other.ControllerManager.ExtraEnv
	}
	override(&c.CloudConfig.File, other.CloudConfig.File)
	override(&c.Inventory, other.Inventory)
	override(&c.NodeIP, other.NodeIP)
	override(&c.Routes, other.Routes)
	override(&c.NodeAgent.Enabled, other.NodeAgent.Enabled)
	override(&c.NodeAgent.Image, other.NodeAgent.Image)
	override(&c.ControlPlaneVIP.Address, other.ControlPlaneVIP.Address)
	override(&c.ControlPlaneVIP.Interface, other.ControlPlaneVIP.Interface)
	override(&c.ControlPlaneVIP.BGP, other.ControlPlaneVIP.BGP)
	override(&c.ServingCertificates.Enabled, other.ServingCertificates.Enabled)
	if other.ServingCertificates.AddressRanges != nil {
		c.ServingCertificates.AddressRanges = other.ServingCertificates.AddressRanges
	}
	if other.ServingCertificates.Names != nil {
		c.ServingCertificates.Names = other.ServingCertificates.Names
	}
	override(&c.Lifecycle, other.Lifecycle)
	override(&c.Wait.Timeout, other.Wait.Timeout)
	if other.ControllerManager.ExtraArgs != nil {
		c.ControllerManager.ExtraArgs = other.ControllerManager.ExtraArgs
	}
	if other.Credentials != nil {
		c.Credentials = other.Credentials
	}
}

func override[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}
