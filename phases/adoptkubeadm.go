package phases

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// cleanKubeadm takes out of kubeadm's own configuration what the next `kubeadm upgrade` would stumble over.
func cleanKubeadm() Phase {
	const object = "ConfigMap/kube-system/" + kubeadmConfigName
	return Phase{
		Name:  "kubeadm-config",
		Short: "Take arguments of built-in cloud providers out of kubeadm's configuration",
		Long: "Reads and writes " + object + ": cloud-provider and cloud-config of kube-apiserver and\n" +
			"kube-controller-manager go.",
		Run: func(ctx context.Context, d *Data) error {
			client, err := connect(d, machine.AdminConf)
			if err != nil {
				return err
			}
			maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
			live, err := maps.Get(ctx, kubeadmConfigName, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("read %s: %w", object, err)
			}
			file, err := kubeadm.Parse(object, []byte(live.Data[clusterConfigKey]))
			if err != nil {
				return err
			}
			v, err := version.ParseGeneric(file.KubernetesVersion())
			if err != nil {
				return fmt.Errorf("read %s: %w", object, err)
			}
			changes, err := file.DropStale(int(v.Minor()))
			if err != nil {
				return err
			}
			if len(changes) == 0 {
				d.Sayf("%s unchanged", object)
				return nil
			}
			d.known.changed = true
			for _, c := range changes {
				d.Sayf("%s: %s", object, c)
			}
			if d.DryRun {
				return nil
			}
			live.Data[clusterConfigKey] = string(file.Bytes())
			if _, err := maps.Update(ctx, live, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
				return fmt.Errorf("write %s: %w", object, err)
			}
			return nil
		},
	}
}

// adoptable is the configuration of a cluster that kubeadm has made.
func adoptable(ctx context.Context, d *Data) (*kubeadm.File, error) {
	client, err := livingClient(d)
	if err != nil {
		return nil, err
	}
	live, err := liveKubeadm(ctx, client)
	switch {
	case apierrors.IsNotFound(err):
		return nil, finding.Refusedf("adopt: %w", err).
			WithHint("clusters that kubeadm has made can be adopted. Nothing was changed")
	case err != nil:
		return nil, finding.Refusedf("adopt: %w", err).
			WithHint("nothing was changed; the same command again, once the API server answers")
	}
	return live, nil
}
