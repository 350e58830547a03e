package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// pullPatience is how long an image may take. A registry that does not answer keeps containerd for half a minute a try.
const pullPatience = 5 * time.Minute

// CheckImages has this machine pull the images of ccmadm's own release that it lacks, as kubeadm does with its own before it changes
// anything; no registry has those of a build that was never released. Only a control plane is asked: another machine need not have them.
// A container runtime that cannot be asked may have them, or be able to pull them.
func CheckImages(ctx context.Context, r *workflow.Run) error {
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
	var absent []templates.ReleasedImage
	var refs []string
	for _, image := range images {
		if has, err := r.Machine.HasImage(ctx, image.Ref); err != nil {
			r.Sayf("warning, whether this machine has image %s is unknown: %v", image.Ref, err)
		} else if !has {
			absent, refs = append(absent, image), append(refs, image.Ref)
		}
	}
	if len(absent) > 0 && templates.Unpublished(r.Version) {
		return finding.Errorf("this build has no published image: ccmadm %s is no release, and %s was not imported on this machine",
			r.Version, strings.Join(refs, ", ")).WithHint("%s; or use a release of ccmadm", otherWays(r, absent...))
	}
	for _, image := range absent {
		if err := pull(ctx, r, image); err != nil {
			return err
		}
	}
	return nil
}

// pull brings an image to this machine. A dry run leaves it out, as it would take minutes and space.
func pull(ctx context.Context, r *workflow.Run, image templates.ReleasedImage) error {
	if r.DryRun {
		return nil
	}
	r.Sayf("pulling image %s", image.Ref)
	ctx, cancel := context.WithTimeout(ctx, pullPatience)
	defer cancel()
	asked, err := r.Machine.PullImage(ctx, image.Ref)
	if err == nil {
		return nil
	}
	if !asked {
		r.Sayf("warning, whether image %s can be pulled is unknown: %v", image.Ref, err)
		return nil
	}
	return finding.Errorf("image %s is not on this machine and cannot be pulled: %w", image.Ref, err).WithHint("%s", otherWays(r, image))
}

// otherWays are those to images that no registry gives. Only kubeadm's flag of init names a mirror: in an existing cluster it is kubeadm's
// configuration that does.
func otherWays(r *workflow.Run, images ...templates.ReleasedImage) string {
	ways := []string{"`ccmadm images load FILE` imports an archive"}
	if !r.Existing {
		ways = append(ways, "--image-repository names a mirror")
	}
	for _, i := range images {
		if i.Field != "" {
			ways = append(ways, i.Field+" in the CloudConfiguration names another image")
		}
	}
	return strings.Join(ways, "; ")
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
