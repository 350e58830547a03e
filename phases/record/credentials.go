package record

import (
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// moveCredentials takes credentials that the record of an earlier release has in extraEnv to the Secret. A static pod
// cannot read that: there they stay until the user takes them away, and are named.
func moveCredentials(r *workflow.Run, s *settings.Settings) {
	if s.Recorded == nil {
		return
	}
	manager := s.ControllerManager
	moved := manager.MoveCredentials()
	if len(moved) == 0 {
		return
	}
	scheduled := s.Mode == config.ModeDaemonSet || s.Mode == config.ModeDeployment
	if scheduled && r.Existing && !r.Single {
		s.ControllerManager, s.Moved = manager, moved
		return
	}
	if r.Existing {
		r.Sayf("warning: controllerManager.extraEnv has a credential, and the cluster's record shows it: `ccmadm apply` in mode "+
			"DaemonSet or Deployment moves it to Secret/%s/%s; in mode %s, take it out and change it",
			v1alpha1.Namespace, v1alpha1.CloudConfigName, s.Mode)
	}
}

// RefuseLostCredentials finds a variable that refers to a credential that is not given: its pod would never start.
func RefuseLostCredentials(h *workflow.Host, s *settings.Settings, files map[string][]byte) error {
	if h.Role != kubeadm.RoleInit || s.Mode == config.ModeManual {
		return nil
	}
	for _, env := range s.ControllerManager.ExtraEnv {
		name, value, _ := strings.Cut(env, "=")
		if key, refers := config.CredentialOf(value); refers && files[key] == nil {
			return finding.Usagef("controllerManager.extraEnv: %s refers to credential %q, which is not given", name, key).
				WithHint("credentials: [{key: %s, file: FILE}]", key)
		}
	}
	return nil
}
