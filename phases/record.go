package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// RecordKind is the kind of the document that carries a cluster's settings.
const RecordKind = "Record"

// Record is what a machine needs to know of the cluster in order to join it. kubeadm has no carrier for this
// (kubernetes/kubeadm#1021), so it stands in a ConfigMap that a bootstrap token may read, and, as far as it is known
// by then, in /etc/ccmadm on each machine.
type Record struct {
	metav1.TypeMeta `json:",inline"`
	// Configuration holds in the whole cluster; names of local files are left out.
	Configuration CloudConfiguration `json:"configuration"`
	// Profile is the text of the provider's profile where it is the user's own.
	Profile string `json:"profile,omitempty"`
	// PodSubnet tells machines that join whether the cluster is dual-stack.
	PodSubnet string `json:"podSubnet,omitempty"`
	// KubernetesVersion is kubeadm's when the record was written.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// WrittenBy is the version of ccmadm.
	WrittenBy string `json:"writtenBy,omitempty"`
}

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
			rec.Configuration.CloudConfig, rec.Configuration.Inventory, rec.Configuration.Credentials = CloudConfigFile{}, "", nil
			data, err := rec.encode()
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
func (d *Data) newRecord(ctx context.Context) (*Record, error) {
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
	return &Record{
		TypeMeta:          metav1.TypeMeta{APIVersion: ConfigAPIVersion, Kind: RecordKind},
		Configuration:     *settings,
		Profile:           profile,
		PodSubnet:         d.Kubeadm.PodSubnet(),
		KubernetesVersion: "v" + v.String(),
		WrittenBy:         d.Version,
	}, nil
}

func (r *Record) encode() ([]byte, error) {
	data, err := yaml.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	return data, nil
}

// decodeRecord is lenient with fields that it does not know: a newer ccmadm may have written them, and a machine
// with an older one must still be able to join.
func decodeRecord(where string, data []byte) (*Record, error) {
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	r := &Record{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	if r.APIVersion != ConfigAPIVersion || r.Kind != RecordKind {
		return nil, fmt.Errorf("read %s: apiVersion %q and kind %q, want %s and %s", where, r.APIVersion, r.Kind, ConfigAPIVersion, RecordKind)
	}
	c := r.Configuration
	c.Profile = r.Profile // then the provider's name need not be known
	if errs := c.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("read %s: %w", where, errs.ToAggregate())
	}
	return r, nil
}

// localRecord returns what an earlier phase wrote down on this machine, or nil.
func localRecord() (*Record, error) {
	data, err := os.ReadFile(RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no record is a fine answer
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of an earlier phase: %w", err)
	}
	return decodeRecord(RecordFile, data)
}

// knownRecord is the record on disk; in a dry run of a join, which has written none, the cluster's own.
func (d *Data) knownRecord(ctx context.Context) (*Record, error) {
	rec, err := localRecord()
	if err != nil || rec != nil {
		return rec, err
	}
	if d.Role == kubeadm.RoleJoin && d.DryRun && d.Kubeadm.CanDiscover() {
		return d.discoverRecord(ctx)
	}
	return nil, nil //nolint:nilnil // no record is a fine answer
}
