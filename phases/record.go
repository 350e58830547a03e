package phases

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
)

func record() Phase {
	return Phase{
		Name:   "record",
		Shared: true,
		Short:  "Publish the cluster's settings for machines that join",
		Long: `Reads the settings and the cluster's CA. Writes the ConfigMap kube-system/` + v1alpha1.RecordName + `, and a Role that lets
bootstrap tokens and nodes read it. It holds no secret.`,
		Run: func(ctx context.Context, d *Data) error {
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			rec := newRecord(d, s)
			if rec.Configuration.ClusterName, err = clusterName(d, s); err != nil {
				return err
			}
			if rec.Configuration.ControllerManager.Image, err = image(d, s); err != nil {
				return err
			}
			if rec.ImageBy, err = imageBy(d, s, rec.Configuration.ControllerManager.Image); err != nil {
				return err
			}
			if err := recordNodeAgent(d, s, rec); err != nil {
				return err
			}
			rec.Configuration.ControllerManager.Version, rec.Configuration.NodeIP = "", clusterNodeIP(rec.Configuration.NodeIP)
			rec.Configuration.CloudConfig, rec.Configuration.Inventory, rec.Configuration.Credentials = v1alpha1.CloudConfigFile{}, "", nil
			data, err := rec.Encode()
			if err != nil {
				return err
			}
			objects, err := manifests.Record(data, s.Profile.LeaseName())
			if err != nil {
				return err
			}
			if err := applySet(ctx, d, apply.Record, machine.AdminConf, objects); err != nil {
				return err
			}
			return keepRecord(d, s, rec)
		},
	}
}

// newRecord gathers what is known on this machine.
func newRecord(d *Data, s *Settings) *v1alpha1.Record {
	rec := &v1alpha1.Record{
		TypeMeta:          metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.RecordKind},
		Configuration:     s.CloudConfiguration,
		Profile:           s.OwnProfile,
		PodSubnet:         s.PodSubnet,
		ImageRepository:   s.ImageRepository,
		KubernetesVersion: s.KubernetesVersion,
		WrittenBy:         d.Version,
		NextImage:         nextImage(d, s),
	}
	rec.Configuration.Profile = "" // it is a file of this machine; its text goes along
	rec.Configuration.Lifecycle, rec.LifecycleHeld = recordedLifecycle(d, s)
	if s.Recorded != nil && s.Recorded.Configuration.ControllerManager.Image == s.ControllerManager.Image {
		rec.ImageBy = s.Recorded.ImageBy // a phase by itself knows no more
	}
	switch {
	case s.Recorded == nil:
	case !d.Single || d.Living:
		rec.Configuration.Wait = s.Recorded.Configuration.Wait // how long this run waits is no setting of the cluster
		if !d.Living || clusterNodeIP(d.Said.NodeIP) != d.Said.NodeIP {
			rec.Configuration.NodeIP = s.Recorded.Configuration.NodeIP // nor is this machine's address
		}
	case d.Said.NodeIP == "":
		rec.Configuration.NodeIP = s.Recorded.Configuration.NodeIP
	}
	if s.CertificatesDir != machine.PKIDir {
		rec.CertificatesDir = s.CertificatesDir
	}
	return rec
}

// keepRecord brings this machine's copy up to date: the cluster's name, which a new CA would give another, and the
// image. The names of its files are this machine's own.
func keepRecord(d *Data, s *Settings, published *v1alpha1.Record) error {
	kept := newRecord(d, s)
	kept.Configuration.ClusterName = published.Configuration.ClusterName
	kept.Configuration.ControllerManager = published.Configuration.ControllerManager
	kept.ImageBy, kept.Configuration.NodeAgent = published.ImageBy, published.Configuration.NodeAgent
	if d.Single && !d.Living {
		kept.Configuration.NodeIP = s.NodeIP // this machine's own
	}
	before, err := d.Machine.Record()
	if err != nil {
		return err
	}
	switch {
	case before == nil:
	case before.Configuration.Provider == kept.Configuration.Provider:
		keepOwn(d, &kept.Configuration, before.Configuration)
	default: // the files of another provider's are none of this one's
		kept.Configuration.NodeIP = before.Configuration.NodeIP
	}
	return writeRecord(d, kept)
}

// keepOwn keeps what only this machine's copy says: where the provider's files were read from, all or, in a cluster
// that lives, one by one; there its own address, too.
func keepOwn(d *Data, kept *v1alpha1.CloudConfiguration, before v1alpha1.CloudConfiguration) {
	if !d.Living {
		if kept.CloudConfig.File == "" && kept.Inventory == "" && kept.Credentials == nil {
			kept.CloudConfig, kept.Inventory, kept.Credentials = before.CloudConfig, before.Inventory, before.Credentials
		}
		return
	}
	kept.NodeIP = before.NodeIP
	kept.CloudConfig.File = cmp.Or(kept.CloudConfig.File, before.CloudConfig.File)
	kept.Inventory = cmp.Or(kept.Inventory, before.Inventory)
	for _, c := range before.Credentials {
		if !slices.ContainsFunc(kept.Credentials, func(k v1alpha1.Credential) bool { return k.Key == c.Key }) {
			kept.Credentials = append(slices.Clone(kept.Credentials), c)
		}
	}
}

// clusterNodeIP is the policy that holds for other machines too: an address is this machine's own.
func clusterNodeIP(policy string) string {
	if _, err := netip.ParsePrefix(policy); err == nil || policy == v1alpha1.NodeIPDefault {
		return policy
	}
	return v1alpha1.NodeIPAuto
}

// writeRecord keeps what this run was told, for phases that are called by themselves later.
func writeRecord(d *Data, rec *v1alpha1.Record) error {
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	return d.write(machine.File{Path: machine.RecordFile, Data: data, Mode: 0o600})
}

// recordPatience is how long the API server of a control plane may take to answer: it may be restarting.
const recordPatience = 30 * time.Second

// clusterRecord is the record of the cluster that this control plane is one of already, or nil where it is none yet. What
// was never published, or deleted, is known from this machine's own copy.
func clusterRecord(ctx context.Context, d *Data) (*v1alpha1.Record, error) {
	done, err := finished(d)
	if err != nil || !done {
		return nil, err
	}
	rec, err := publishedRecord(ctx, d)
	if err != nil || rec != nil {
		return rec, err
	}
	if rec, err = d.Machine.Record(); err != nil || rec == nil {
		return nil, err
	}
	return rec, forgetUntried(ctx, d, rec)
}

// publishedRecord is the one in the cluster, or nil where there is none. Without an answer nothing is changed: the machine
// may be one that lives.
func publishedRecord(ctx context.Context, d *Data) (*v1alpha1.Record, error) {
	return d.known.record.get(func() (*v1alpha1.Record, error) {
		client, err := connect(d, machine.AdminConf)
		if err != nil {
			return nil, finding.Refusedf("compare with the cluster's record: %w", err).
				WithHint("kubeadm has finished on this machine, so nothing is done here that the cluster has not been asked about; if kubeadm was reset: `ccmadm reset`. Nothing was changed")
		}
		rec, err := askRecord(ctx, client)
		if apierrors.IsNotFound(err) {
			return nil, nil // not published: the run that made the cluster was cut short before
		}
		if err == nil {
			return rec, forgetUntried(ctx, d, rec)
		}
		return nil, finding.Refusedf("compare with the cluster's record: %w", err).
			WithHint("kubeadm has finished on this machine, so nothing is done here that the cluster has not been asked about; look at its API server: " +
				"crictl ps -a | grep kube-apiserver; journalctl -u kubelet. Nothing was changed")
	})
}

// forgetUntried takes out of the record what no node has come through with yet: until then the same command, corrected,
// is how an image that cannot be pulled is replaced. Whether this machine's node has come through is asked, where no run of
// ours has seen it.
func forgetUntried(ctx context.Context, d *Data, rec *v1alpha1.Record) error {
	s, err := machineState(d)
	if err != nil || s.Stage != v1alpha1.StageFinished {
		return err
	}
	through, err := established(ctx, d)
	if err != nil {
		return err
	}
	if through {
		return noteInitialized(d)
	}
	rec.Configuration.ControllerManager, rec.Configuration.NodeAgent.Image = v1alpha1.ControllerManager{}, ""
	return nil
}

// askRecord asks until there is an answer. A server that is overloaded, or that does not know us yet, has given none.
func askRecord(ctx context.Context, client kubernetes.Interface) (rec *v1alpha1.Record, err error) {
	waitErr := wait.PollUntilContextTimeout(ctx, time.Second, recordPatience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		got, asked := readRecord(ctx, client)
		if end, _ := ctx.Deadline(); err != nil && asked != nil && !time.Now().Before(end) {
			return false, nil // the time is up; why nobody answered before says more
		}
		rec, err = got, asked
		return err == nil || apierrors.IsNotFound(err), nil
	})
	if err == nil && waitErr != nil { // the caller's end, before the first question
		err = waitErr
	}
	return rec, err
}

// readRecord reads it once.
func readRecord(ctx context.Context, client kubernetes.Interface) (*v1alpha1.Record, error) {
	name := "ConfigMap/kube-system/" + v1alpha1.RecordName
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return v1alpha1.DecodeRecord(name, []byte(cm.Data[v1alpha1.RecordKey]))
}
