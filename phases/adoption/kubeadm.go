package adoption

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// cleanKubeadm takes out of kubeadm's own configuration what the next `kubeadm upgrade` would stumble over.
func cleanKubeadm() workflow.Phase {
	const object = "ConfigMap/kube-system/" + workflow.KubeadmConfigName
	return workflow.Phase{
		Name:  "kubeadm-config",
		Short: "Take arguments of built-in cloud providers out of kubeadm's configuration",
		Long: "Reads and writes " + object + ": cloud-provider and cloud-config of kube-apiserver and\n" +
			"kube-controller-manager go.",
		Run: func(ctx context.Context, r *workflow.Run) error {
			edited, err := workflow.EditConfigMap(ctx, r.Env, workflow.KubeadmConfigName, workflow.ClusterConfigKey, dropStale)
			if err != nil || edited == nil || r.DryRun {
				return err
			}
			return edited.Write(ctx)
		},
	}
}

// dropStale takes the arguments out of kubeadm's ClusterConfiguration that its version refuses.
func dropStale(object, text string) (string, []string, error) {
	file, err := kubeadm.Parse(object, []byte(text))
	if err != nil {
		return "", nil, err
	}
	v, err := version.ParseGeneric(file.KubernetesVersion())
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", object, err)
	}
	dropped, err := file.DropStale(int(v.Minor()))
	var changes []string
	for _, c := range dropped {
		changes = append(changes, c.String())
	}
	return string(file.Bytes()), changes, err
}

// adoptable is the configuration of a cluster that kubeadm has made.
func adoptable(ctx context.Context, env *workflow.Env) (*kubeadm.File, error) {
	client, err := workflow.AdminClient(env)
	if err != nil {
		return nil, err
	}
	live, err := workflow.LiveKubeadm(ctx, client)
	switch {
	case apierrors.IsNotFound(err):
		return nil, finding.Refusedf("adopt: %w", err).
			WithHint("adopt needs a cluster that kubeadm created, with ConfigMap kube-system/kubeadm-config. Nothing was changed")
	case err != nil:
		return nil, finding.Refusedf("adopt: %w", err).
			WithHint("nothing was changed; run the same command again when the API server answers")
	}
	return live, nil
}
