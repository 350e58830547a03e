package phases

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"github.com/ccmadm/ccmadm/manifests"
)

func controlPlane() Phase {
	return Phase{
		Name:  "control-plane",
		Short: "Write the cloud-controller-manager's static pod",
		Long: `Reads the profile, the settings and the provider's configuration.
Writes ` + CCMManifest + ` and the provider's files below ` + CloudConfigDir + `.
The pod refers to nothing in the API: a kubelet from 1.34 on refuses static pods that do.
A manifest that was edited by hand is kept; --force replaces it.`,
		Only: []v1alpha1.Mode{v1alpha1.ModeStaticPod},
		Run: func(ctx context.Context, d *Data) error {
			files, err := d.cloudFiles(ctx)
			if err != nil {
				return err
			}
			return d.writeStaticPod(ctx, files)
		},
	}
}

func joinControlPlane() Phase {
	p := controlPlane()
	p.Run = func(ctx context.Context, d *Data) error {
		if !d.isControlPlane() {
			return nil
		}
		if d.DryRun {
			d.Sayf("would write %s with the provider's files from the cluster", CCMManifest)
			return nil
		}
		files, err := d.fetchCloudFiles(ctx)
		if err != nil {
			return err
		}
		return d.writeStaticPod(ctx, files)
	}
	return p
}

func (d *Data) isControlPlane() bool {
	return d.Role == kubeadm.RoleInit || d.Kubeadm.JoinsControlPlane()
}

func (d *Data) writeStaticPod(ctx context.Context, cloudFiles map[string][]byte) error {
	if err := d.refuseEditedManifest(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(cloudFiles)) {
		if err := d.write(File{Path: filepath.Join(CloudConfigDir, name), Data: cloudFiles[name], Mode: 0o600, Opaque: true}); err != nil {
			return err
		}
	}
	profile, values, err := d.values(ctx, cloudFiles)
	if err != nil {
		return err
	}
	pod, err := manifests.StaticPod(profile, values)
	if err != nil {
		return err
	}
	return d.write(File{Path: CCMManifest, Data: seal(pod), Mode: 0o600})
}

// The first line of a manifest that ccmadm wrote carries a digest of the rest.
const sealPrefix = "# Written by ccmadm, which keeps and reports an edit by hand. sha256:"

func seal(manifest []byte) []byte {
	sum := sha256.Sum256(manifest)
	return append([]byte(sealPrefix+hex.EncodeToString(sum[:])+"\n"), manifest...)
}

// sealed tells whether the manifest is as ccmadm wrote it, whatever its settings were.
func sealed(data []byte) bool {
	_, rest, ok := bytes.Cut(data, []byte("\n"))
	return ok && bytes.Equal(seal(rest), data)
}

func (d *Data) refuseEditedManifest() error {
	if d.Force {
		return nil
	}
	data, err := os.ReadFile(CCMManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a manifest edited by hand: %w", err)
	}
	if sealed(data) {
		return nil
	}
	return finding.Refusedf("replace %s: it was edited by hand, or not written by ccmadm; it is kept", CCMManifest).
		WithHint("--force replaces it; `controllerManager.extraArgs` and `controllerManager.image` of the configuration are the place for changes that last")
}

func checkManifestUntouched(_ context.Context, d *Data) error { return d.refuseEditedManifest() }
