package manager

import (
	"context"
	"fmt"
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// CheckImages finds images of ccmadm's own release that no registry has, because this build was never released, and that
// were not imported on this machine, either. Only a control plane is asked: another machine need not have them.
// A container runtime that cannot be asked may have them.
func CheckImages(ctx context.Context, r *workflow.Run) error {
	if !templates.Unpublished(r.Version) {
		return nil
	}
	if node, err := runsPods(r); err != nil || !node {
		return err
	}
	s, err := r.Settings(ctx)
	if err != nil || s.Mode == config.ModeManual {
		return err
	}
	v, err := NamelessValues(r.Env, s, nil)
	if err != nil {
		return err
	}
	images, err := s.Profile.ReleasedImages(v)
	if err != nil {
		return err
	}
	var absent []string
	for _, image := range images {
		if has, err := r.Machine.HasImage(ctx, image); err != nil {
			r.Sayf("warning, this build has no published image, and whether %s was imported is unknown: %v", image, err)
		} else if !has {
			absent = append(absent, image)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return finding.Errorf("this build has no published image: ccmadm %s is no release, and %s was not imported on this machine",
		r.Version, strings.Join(absent, ", ")).
		WithHint("--image names another one; `ccmadm images load FILE` imports an archive; or use a release of ccmadm")
}

// runsPods tells whether this machine is a control plane, or becomes one.
func runsPods(r *workflow.Run) (bool, error) {
	if !r.Existing {
		return true, nil
	}
	is, err := r.Machine.Exists(machine.APIServerPod)
	if err != nil {
		return false, fmt.Errorf("look for a control plane on this machine: %w", err)
	}
	return is, nil
}
