package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/apply"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/manifests"
)

// restConfig loads the kubeconfig that the user named, or else the given one.
func (d *Data) restConfig(path string) (*rest.Config, error) {
	if d.Kubeconfig != "" {
		path = d.Kubeconfig
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, finding.Errorf("load kubeconfig %s: %w", path, err).
			WithHint("--kubeconfig names another one")
	}
	config.QPS, config.Burst = 50, 100 // a handful of objects at once; the default would stretch them over seconds
	config.UserAgent = "ccmadm/" + d.Version
	return config, nil
}

func (d *Data) client(path string) (*kubernetes.Clientset, error) {
	config, err := d.restConfig(path)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect with %s: %w", path, err)
	}
	return client, nil
}

// applyTimeout bounds the retries while an API server is coming up or restarting.
const applyTimeout = 2 * time.Minute

// apply brings objects to the cluster, or in a dry run shows what they would change.
func (d *Data) apply(ctx context.Context, kubeconfigPath string, objects []*manifests.Object) error {
	applier, err := d.applier(kubeconfigPath)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	changes, err := applier.Apply(ctx, d.phase, objects)
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	var conflict *apply.ConflictError
	if errors.As(err, &conflict) {
		return &finding.Error{Code: finding.ExitRefused, Err: err, Hint: conflict.Hint()}
	}
	return err
}

// applier is the server's, or a printer. A dry run on a machine that has no cluster yet prints whole objects.
func (d *Data) applier(kubeconfigPath string) (apply.Applier, error) {
	if d.DryRun {
		if _, err := os.Stat(kubeconfigPath); d.Kubeconfig == "" && errors.Is(err, os.ErrNotExist) {
			return apply.NewPrinter(nil, d.Out)
		}
	}
	config, err := d.restConfig(kubeconfigPath)
	if err != nil {
		return nil, err
	}
	if d.DryRun {
		return apply.NewPrinter(config, d.Out)
	}
	return apply.NewCluster(config, d.Force)
}

// bootstrapConf is the strongest kubeconfig there is: until kubeadm's second half binds the administrators' group,
// admin.conf may do nothing (kubernetes/kubernetes#121305).
func bootstrapConf() string {
	if _, err := os.Stat(superAdminConf); err == nil {
		return superAdminConf
	}
	return adminConf
}

// FindKubeconfig follows kubectl, and prefers the administrator's on a control plane to the user's own.
func FindKubeconfig(named string, env func(string) string) string {
	if named != "" {
		return named
	}
	if path := env(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		return path
	}
	if _, err := os.Stat(adminConf); err == nil {
		return adminConf
	}
	return filepath.Join(env("HOME"), clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
}
