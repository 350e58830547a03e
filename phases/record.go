package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

func record() Phase {
	return Phase{
		Name:  "record",
		Short: "Publish the cluster's settings for machines that join",
		Long: `Reads the settings and the cluster's CA. Writes the ConfigMap kube-system/` + v1alpha1.RecordName + `, and a Role that lets
bootstrap tokens and nodes read it. It holds no secret.`,
		Run: func(ctx context.Context, d *Data) error {
			rec, err := d.newRecord(ctx)
			if err != nil {
				return err
			}
			if rec.Configuration.ClusterName, err = d.clusterName(&rec.Configuration); err != nil {
				return err
			}
			profile, err := d.Profile(ctx)
			if err != nil {
				return err
			}
			if rec.Configuration.ControllerManager.Image, err = d.image(ctx, &rec.Configuration); err != nil {
				return err
			}
			rec.Configuration.ControllerManager.Version = ""
			rec.Configuration.CloudConfig, rec.Configuration.Inventory, rec.Configuration.Credentials = v1alpha1.CloudConfigFile{}, "", nil
			data, err := rec.Encode()
			if err != nil {
				return err
			}
			objects, err := manifests.Record(data, profile.LeaseName())
			if err != nil {
				return err
			}
			return d.apply(ctx, adminConf, objects)
		},
	}
}

// newRecord gathers what is known on this machine.
func (d *Data) newRecord(ctx context.Context) (*v1alpha1.Record, error) {
	settings, err := d.Settings(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.kubeadmVersion()
	if err != nil {
		return nil, err
	}
	_, profile, err := d.ownProfile(ctx, settings)
	if err != nil {
		return nil, err
	}
	settings.Profile = "" // a file of this machine; its text goes along
	return &v1alpha1.Record{
		TypeMeta:          metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.RecordKind},
		Configuration:     *settings,
		Profile:           profile,
		PodSubnet:         d.Kubeadm.PodSubnet(),
		KubernetesVersion: "v" + v.String(),
		WrittenBy:         d.Version,
	}, nil
}

// localRecord returns what an earlier phase wrote down on this machine, or nil.
func localRecord() (*v1alpha1.Record, error) {
	data, err := os.ReadFile(RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no record is a fine answer
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of an earlier phase: %w", err)
	}
	return v1alpha1.DecodeRecord(RecordFile, data)
}

// knownRecord is the record on disk; in a dry run of a join, which has written none, the cluster's own.
func (d *Data) knownRecord(ctx context.Context) (*v1alpha1.Record, error) {
	rec, err := localRecord()
	if err != nil || rec != nil {
		return rec, err
	}
	if d.Role == kubeadm.RoleJoin && d.DryRun && d.Kubeadm.CanDiscover() {
		return d.discoverRecord(ctx)
	}
	return nil, nil //nolint:nilnil // no record is a fine answer
}
