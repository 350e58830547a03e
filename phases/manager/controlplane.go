package manager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ControlPlane writes the manager's static pod.
func ControlPlane() workflow.Phase {
	return workflow.Phase{
		Name:   "control-plane",
		Shared: true,
		Short:  "Write the cloud-controller-manager's static pod",
		Long: `Reads the profile, the settings and the provider's configuration.
Writes ` + machine.CCMManifest + ` and the provider's files below ` + machine.CloudConfigDir + `.
The pod refers to nothing in the API: a kubelet from 1.34 on refuses static pods that do.
A manifest that was edited by hand is kept; --force replaces it.`,
		Only: []config.Mode{config.ModeStaticPod},
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			files, err := CloudFiles(ctx, r, s)
			if err != nil {
				return err
			}
			return writeStaticPod(ctx, r, s, files)
		},
	}
}

// JoinControlPlane is ControlPlane on a control plane that joins: the provider's files come from the cluster.
func JoinControlPlane() workflow.Phase {
	p := ControlPlane()
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		if !workflow.IsControlPlane(r.Host) {
			return nil
		}
		if r.DryRun {
			r.Sayf("would write %s with the provider's files from the cluster", machine.CCMManifest)
			return nil
		}
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		files, err := joinedFiles(ctx, r.Env, s)
		if err != nil {
			return notWritten(err)
		}
		return writeStaticPod(ctx, r, s, files)
	}
	return p
}

// notWritten says what is left of a join whose machine is in the cluster, and has no manager.
func notWritten(err error) error {
	var known *finding.Error
	if errors.As(err, &known) {
		err = known.Err
	}
	return finding.Errorf("write %s: %w", machine.CCMManifest, err).WithHint("this machine has joined the cluster. On a control plane that has the " +
		"provider's files run `ccmadm apply`, or anywhere `ccmadm apply -f FILE` with cloudConfig and credentials; then run the same " +
		"command here again: it goes on")
}

func writeStaticPod(ctx context.Context, r *workflow.Run, s *settings.Settings, cloudFiles map[string][]byte) error {
	if err := refuseEditedManifest(r.Env); err != nil {
		return err
	}
	v, err := values(r.Host, s, cloudFiles)
	if err != nil {
		return err
	}
	if err := refuseNewerManager(ctx, r, s, v); err != nil {
		return err
	}
	if err := writeCloudFiles(r.Env, cloudFiles); err != nil {
		return err
	}
	pod, err := manifests.StaticPod(s.Profile, v)
	if err != nil {
		return err
	}
	identity, err := r.Machine.Read(machine.CCMKubeconfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a dry run before there is one
		return fmt.Errorf("read the static pod's identity: %w", err)
	}
	if pod, err = stamp(pod, identity); err != nil {
		return err
	}
	return r.Write(machine.File{Path: machine.CCMManifest, Data: Seal(pod), Mode: 0o600})
}

// writeCloudFiles writes the provider's files, and removes those of an earlier run that are wanted no more. Which files
// are ours is written down before they are: what the administrator has put beside them is left alone.
func writeCloudFiles(env *workflow.Env, files map[string][]byte) error {
	state, err := workflow.MachineState(env)
	if err != nil {
		return err
	}
	noted := false
	for _, name := range slices.Sorted(maps.Keys(files)) {
		noted = state.AddFile(filepath.Join(machine.CloudConfigDir, name)) || noted
	}
	if noted && !env.DryRun {
		if err := state.Write(env.Machine); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := env.Write(machine.File{Path: filepath.Join(machine.CloudConfigDir, name), Data: files[name], Mode: 0o600, Opaque: true}); err != nil {
			return err
		}
	}
	kept := slices.Clone(state.Files)
	for _, path := range kept {
		if _, wanted := files[filepath.Base(path)]; wanted {
			continue
		}
		if err := workflow.Remove(env, path); err != nil {
			return err
		}
		state.Files = slices.DeleteFunc(state.Files, func(f string) bool { return f == path })
	}
	if len(kept) == len(state.Files) || env.DryRun {
		return nil
	}
	return state.Write(env.Machine)
}

// stamp notes which identity the pod has: a process reads its kubeconfig once, and the kubelet replaces the pod when the
// annotation changes.
func stamp(pod, identity []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(pod, &object); err != nil {
		return nil, fmt.Errorf("read the static pod: %w", err)
	}
	if err := unstructured.SetNestedField(object, digest(identity), "metadata", "annotations", v1alpha1.KubeconfigHashAnnotation); err != nil {
		return nil, fmt.Errorf("annotate the static pod: %w", err)
	}
	return yaml.Marshal(object)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// RestampStaticPod makes the kubelet start the pod again with an identity that was renewed. A manifest that was edited by
// hand is left to whoever edited it.
func RestampStaticPod(env *workflow.Env) error {
	identity, err := env.Machine.Read(machine.CCMKubeconfig)
	if errors.Is(err, fs.ErrNotExist) { // in a dry run
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the static pod's identity: %w", err)
	}
	return restamp(env, identity)
}

// restamp is [RestampStaticPod] with an identity that a dry run has not written.
func restamp(env *workflow.Env, identity []byte) error {
	manifest, err := env.Machine.Read(machine.CCMManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is written later, with this identity
	}
	if err != nil {
		return fmt.Errorf("read the static pod: %w", err)
	}
	if !sealed(manifest) {
		env.Sayf("warning, %s was edited by hand, so the running cloud-controller-manager keeps its old identity until its pod is started again", machine.CCMManifest)
		return nil
	}
	_, pod, _ := bytes.Cut(manifest, []byte("\n"))
	if pod, err = stamp(pod, identity); err != nil {
		return err
	}
	if bytes.Equal(Seal(pod), manifest) {
		return nil // the phase that writes it says so
	}
	return env.Write(machine.File{Path: machine.CCMManifest, Data: Seal(pod), Mode: 0o600})
}

// The first line of a manifest that ccmadm wrote carries a digest of the rest.
const sealPrefix = "# Written by ccmadm, which keeps and reports an edit by hand. sha256:"

// Seal appends the digest by which an edited manifest is found.
func Seal(manifest []byte) []byte {
	sum := sha256.Sum256(manifest)
	return append([]byte(sealPrefix+hex.EncodeToString(sum[:])+"\n"), manifest...)
}

// sealed tells whether the manifest is as ccmadm wrote it, whatever its settings were.
func sealed(data []byte) bool {
	_, rest, ok := bytes.Cut(data, []byte("\n"))
	return ok && bytes.Equal(Seal(rest), data)
}

func refuseEditedManifest(env *workflow.Env) error {
	if env.Force {
		return nil
	}
	data, err := env.Machine.Read(machine.CCMManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a manifest edited by hand: %w", err)
	}
	if sealed(data) {
		return nil
	}
	return finding.Refusedf("replace %s: it was edited by hand, or not written by ccmadm; it is kept", machine.CCMManifest).
		WithHint("--force replaces it; `controllerManager.extraArgs` and `controllerManager.image` of the configuration are the place for changes that last")
}

// CheckManifestUntouched finds it before anything is changed.
func CheckManifestUntouched(_ context.Context, r *workflow.Run) error {
	err := refuseEditedManifest(r.Env)
	var refused *finding.Error
	if errors.As(err, &refused) {
		return finding.Preflightf("%w", refused.Err).WithHint("%s", refused.Hint)
	}
	return err
}
