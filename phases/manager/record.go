package manager

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// recordedLifecycle is what the record says of it, and whether it is off for the time of an adoption alone. That outlives
// other changes, but not what a user says.
func recordedLifecycle(r *workflow.Run, s *settings.Settings) (to config.Lifecycle, held bool) {
	if s.Lifecycle == config.LifecycleOff {
		return s.Lifecycle, s.Recorded != nil && s.Recorded.LifecycleHeld && r.Said.Lifecycle == ""
	}
	if s.LifecycleHeld {
		return config.LifecycleOff, true
	}
	return s.Lifecycle, false
}

// Record publishes the cluster's record, and keeps this machine's copy.
func Record() workflow.Phase {
	return workflow.Phase{
		Name:   "record",
		Shared: true,
		Short:  "Publish the cluster's settings for machines that join",
		Long: `Reads the settings and the cluster's CA. Writes the ConfigMap kube-system/` + v1alpha1.RecordName + `, and a Role that lets
bootstrap tokens and nodes read it. It holds no secret.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			rec := NewRecord(r, s)
			if rec.Configuration.ClusterName, err = record.ClusterName(r.Host, s); err != nil {
				return err
			}
			if rec.Configuration.ControllerManager.Image, err = image(r.Host, s); err != nil {
				return err
			}
			if rec.ImageBy, err = ImageBy(r, s, rec.Configuration.ControllerManager.Image); err != nil {
				return err
			}
			if err := recordNodeAgent(r.Host, s, rec); err != nil {
				return err
			}
			rec.Configuration.ControllerManager.Version, rec.Configuration.NodeIP = "", record.ClusterNodeIP(rec.Configuration.NodeIP)
			rec.Configuration.CloudConfig, rec.Configuration.Inventory, rec.Configuration.Credentials = config.CloudConfigFile{}, "", nil
			data, err := rec.Encode()
			if err != nil {
				return err
			}
			objects, err := manifests.Record(data, s.Profile.LeaseName())
			if err != nil {
				return err
			}
			if err := workflow.ApplySet(ctx, r.Env, apply.Record, machine.AdminConf, objects); err != nil {
				return err
			}
			return keepRecord(r, s, rec)
		},
	}
}

// NewRecord gathers what is known on this machine.
func NewRecord(r *workflow.Run, s *settings.Settings) *state.Record {
	rec := &state.Record{
		TypeMeta:          metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: state.RecordKind},
		Configuration:     s.CloudConfiguration,
		Profile:           s.OwnProfile,
		PodSubnet:         s.PodSubnet,
		ImageRepository:   s.ImageRepository,
		KubernetesVersion: s.KubernetesVersion,
		WrittenBy:         r.Version,
		NextImage:         nextImage(r, s),
	}
	rec.Configuration.Profile = "" // it is a file of this machine; its text goes along
	rec.Configuration.Lifecycle, rec.LifecycleHeld = recordedLifecycle(r, s)
	if s.Recorded != nil && s.Recorded.Configuration.ControllerManager.Image == s.ControllerManager.Image {
		rec.ImageBy = s.Recorded.ImageBy // a phase by itself knows no more
	}
	switch {
	case s.Recorded == nil:
	case !r.Single || r.Existing:
		rec.Configuration.Wait = s.Recorded.Configuration.Wait // how long this run waits is no setting of the cluster
		if !r.Existing || record.ClusterNodeIP(r.Said.NodeIP) != r.Said.NodeIP {
			rec.Configuration.NodeIP = s.Recorded.Configuration.NodeIP // nor is this machine's address
		}
	case r.Said.NodeIP == "":
		rec.Configuration.NodeIP = s.Recorded.Configuration.NodeIP
	}
	if s.CertificatesDir != machine.PKIDir {
		rec.CertificatesDir = s.CertificatesDir
	}
	return rec
}

// keepRecord brings this machine's copy up to date: the cluster's name, which a new CA would give another, and the
// image. The names of its files are this machine's own.
func keepRecord(r *workflow.Run, s *settings.Settings, published *state.Record) error {
	kept := NewRecord(r, s)
	kept.Configuration.ClusterName = published.Configuration.ClusterName
	kept.Configuration.ControllerManager = published.Configuration.ControllerManager
	kept.ImageBy, kept.Configuration.NodeAgent = published.ImageBy, published.Configuration.NodeAgent
	if r.Single && !r.Existing {
		kept.Configuration.NodeIP = s.NodeIP // this machine's own
	}
	before, err := r.Machine.Record()
	if err != nil {
		return err
	}
	switch {
	case before == nil:
	case before.Configuration.Provider == kept.Configuration.Provider:
		record.KeepOwn(r.Env, &kept.Configuration, before.Configuration)
	default: // the files of another provider's are none of this one's
		kept.Configuration.NodeIP = before.Configuration.NodeIP
	}
	return record.WriteRecord(r.Env, kept)
}
