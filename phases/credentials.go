package phases

import (
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
)

// moveCredentials takes credentials that the record of an earlier release has in extraEnv to the Secret. A static pod
// cannot read that: there they stay until the user takes them away, and are named.
func moveCredentials(d *Data, s *Settings) {
	if s.Recorded == nil {
		return
	}
	manager := s.ControllerManager
	moved := manager.MoveCredentials()
	if len(moved) == 0 {
		return
	}
	scheduled := s.Mode == v1alpha1.ModeDaemonSet || s.Mode == v1alpha1.ModeDeployment
	if scheduled && d.Living && !d.Single {
		s.ControllerManager, s.moved = manager, moved
		return
	}
	if d.Living {
		d.Sayf("warning: controllerManager.extraEnv has a credential, and the cluster's record shows it: `ccmadm apply` in mode "+
			"DaemonSet or Deployment moves it to Secret/%s/%s; in mode %s, take it out and change it",
			v1alpha1.Namespace, v1alpha1.CloudConfigName, s.Mode)
	}
}

// refuseCredentials finds a variable that refers to a credential where none can be read.
func refuseCredentials(c *v1alpha1.CloudConfiguration) error {
	if c.Mode != v1alpha1.ModeStaticPod {
		return nil
	}
	for _, env := range c.ControllerManager.ExtraEnv {
		name, value, _ := strings.Cut(env, "=")
		if key, refers := v1alpha1.CredentialOf(value); refers {
			return finding.Usagef("controllerManager.extraEnv: a static pod cannot read %s from a Secret, and its manifest would "+
				"show it to all who may see pods", name).
				WithHint("--mode DaemonSet or Deployment, or credentials: [{key: %s, file: FILE}] alone where the provider reads files", key)
		}
	}
	return nil
}

// refuseLostCredentials finds a variable that refers to a credential that is not given: its pod would never start.
func refuseLostCredentials(d *Data, s *Settings, files map[string][]byte) error {
	if d.Role != kubeadm.RoleInit || s.Mode == v1alpha1.ModeManual {
		return nil
	}
	for _, env := range s.ControllerManager.ExtraEnv {
		name, value, _ := strings.Cut(env, "=")
		if key, refers := v1alpha1.CredentialOf(value); refers && files[key] == nil {
			return finding.Usagef("controllerManager.extraEnv: %s refers to credential %q, which is not given", name, key).
				WithHint("credentials: [{key: %s, file: FILE}]", key)
		}
	}
	return nil
}
