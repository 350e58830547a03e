package phases

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
)

func kubeadmJoin() Phase {
	return Phase{
		Name:  "kubeadm",
		Short: "Run kubeadm join",
		Long:  `Runs "kubeadm join --config ` + machine.KubeadmConfig + `" and streams what it prints. On a machine that has joined, kubeadm is not run again.`,
		Run: func(ctx context.Context, d *Data) error {
			joined, err := hasJoined(ctx, d)
			if err != nil {
				return err
			}
			if joined {
				d.Sayf("unchanged: this machine has joined")
				return reach(d, v1alpha1.StageFinished)
			}
			if err := checkKubeletInUse(ctx, d); err != nil && !ignored(d, finding.CheckKubeletInUse.Kind().Reason) {
				return err // a phase that is run by itself has had no preflight
			}
			args, err := joinArgs(d)
			if err != nil {
				return err
			}
			if err := reach(d, v1alpha1.StageBegun); err != nil {
				return err
			}
			if err := runKubeadm(ctx, d, args...); err != nil {
				return err
			}
			return reach(d, v1alpha1.StageFinished)
		},
	}
}

// joinArgs leaves out kubeadm's preflight where an earlier run came as far as a kubelet's identity, or one to get that
// with: its files are no obstacle. The flag makes kubeadm ignore skipPhases in the file, so the user's own are added to it.
func joinArgs(d *Data) ([]string, error) {
	args := []string{"join", "--config=" + machine.KubeadmConfig}
	begun, err := passedPreflight(d)
	if err != nil {
		return nil, err
	}
	if skip := slices.Clone(d.SkipPhases); begun {
		args = append(args, "--skip-phases="+strings.Join(append([]string{"preflight"}, skip...), ","))
	} else if len(skip) > 0 {
		args = append(args, "--skip-phases="+strings.Join(skip, ","))
	}
	return append(kubeadmFlags(d, args), d.KubeadmRest...), nil
}

// passedPreflight tells whether kubeadm has got past its preflight on this machine. What a run of ours had begun with was
// not there before: checkKubeletInUse has seen to it.
func passedPreflight(d *Data) (bool, error) {
	there, err := d.Machine.Exists(machine.KubeletConf)
	if err != nil || there {
		return there, err
	}
	s, err := machineState(d)
	if err != nil || s.Stage != v1alpha1.StageBegun {
		return false, err
	}
	return d.Machine.Exists(machine.BootstrapConf)
}

// hasJoined tells whether this machine is a node of the cluster: what it has written down, else its Node, which its own
// certificate may ask for. An API server that does not answer is an error, not a no.
func hasJoined(ctx context.Context, d *Data) (bool, error) {
	there, err := d.Machine.Exists(machine.KubeletConf)
	if err != nil || !there {
		return false, err
	}
	s, err := machineState(d)
	if err != nil || s.Stage == v1alpha1.StageFinished {
		return err == nil, err
	}
	name, err := nodeName(d)
	if err != nil {
		return false, err
	}
	client, err := connect(d, machine.KubeletConf)
	if err != nil {
		return false, nil //nolint:nilerr // kubeadm writes it before the kubelet's certificate: that run was cut short
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		if done, failed := finished(d); failed != nil || done { // by a version of ccmadm that kept no state
			return false, cmp.Or(failed, error(finding.Refusedf("ask for Node/%s: %w", name, err).
				WithHint("this machine has joined before, and kubeadm is not run over it: restart its kubelet, or `ccmadm reset` and join again")))
		}
		return false, nil // not registered yet, or with an identity that this cluster does not know
	}
	if err != nil {
		return false, finding.Errorf("ask for Node/%s: %w", name, err).
			WithHint("whether this machine has joined cannot be told before the API server answers; nothing was changed")
	}
	marked := nodes.IsControlPlane(node)
	return marked || !d.KubeadmFile.JoinsControlPlane(), nil
}

// refuseOtherCluster finds a machine that is a member of another cluster than the one that it is told to join.
func refuseOtherCluster(d *Data, cluster *kubeadm.Cluster) error {
	there, err := d.Machine.Exists(machine.KubeletConf)
	if err != nil || !there || len(cluster.CA) == 0 {
		return err
	}
	config, err := restConfig(d, machine.KubeletConf)
	if err != nil {
		return nil //nolint:nilerr // an identity that was cut short is of no cluster yet
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("read %s: %w", machine.KubeletConf, err)
	}
	if len(config.CAData) == 0 || bytes.Equal(bytes.TrimSpace(config.CAData), bytes.TrimSpace(cluster.CA)) || identity.SharesCA(config.CAData, cluster.CA) {
		return nil
	}
	return finding.Refusedf("join the cluster at %s: this machine is a node of another one, at %s", cluster.Server, config.Host).
		WithHint("`ccmadm reset` takes it out of that cluster first")
}

// nodeName follows kubeadm: a hostname-override among the kubelet's arguments, the configured name, the host name.
func nodeName(d *Data) (string, error) {
	configured := d.KubeadmFile.NodeName(d.Role)
	if configured == "" {
		s, err := machineState(d)
		if err != nil {
			return "", err
		}
		configured = s.NodeName // that of an earlier run, whose flags this one may not have
		if configured == "" && d.Living {
			configured = nodeOfKubelet(d.Machine)
		}
	}
	name, err := nodeutil.GetHostname(configured)
	if err != nil {
		return "", fmt.Errorf("choose the node's name: %w", err)
	}
	return name, nil
}

func isControlPlane(d *Data) bool {
	return d.Role == kubeadm.RoleInit || d.KubeadmFile.JoinsControlPlane()
}
