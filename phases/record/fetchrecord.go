package record

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// FetchRecord reads the record of the cluster to join, refuses what contradicts it, and keeps a copy.
func FetchRecord() workflow.Phase {
	return workflow.Phase{
		Name:  "record",
		Short: "Read the cluster's settings",
		Long: `Reads, with the bootstrap token, the ConfigMap kube-system/` + v1alpha1.RecordName + ` that ` + "`ccmadm init`" + ` has published, and
whether the cluster has a node of this machine's name. Refuses what contradicts the record. Writes ` + machine.RecordFile + `.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			cluster, err := joinedCluster(ctx, r)
			if err != nil {
				return err
			}
			if err := refuseOtherCluster(r.Env, cluster); err != nil {
				return err
			}
			if err := refuseTakenName(ctx, r, cluster.Client); err != nil {
				return err
			}
			rec, err := joinedRecord(ctx, r)
			if err != nil {
				return err
			}
			if err := RefuseContradictions(JoinContradicted(), r.Said, rec); err != nil {
				return err
			}
			r.Sayf("cluster %s: provider %s, mode %s", rec.Configuration.ClusterName, rec.Configuration.Provider, rec.Configuration.Mode)
			return WriteRecord(r.Env, rec)
		},
	}
}

// JoinContradicted is what join says.
func JoinContradicted() Contradicted {
	return Contradicted{Command: journal.CommandJoin, Hint: "leave it out: joining machines take it from the record"}
}

// joinedCluster is the one to be joined, found once.
func joinedCluster(ctx context.Context, r *workflow.Run) (*kubeadm.Cluster, error) {
	return r.Cache.Cluster.Get(func() (*kubeadm.Cluster, error) {
		return kubeadm.Discover(ctx, r.KubeadmFile, r.Waiting("the cluster to join", kubeadm.DiscoveryTimeout).StillFor)
	})
}

// joinedRecord is the record of the cluster to be joined.
func joinedRecord(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	return r.Cache.Record.Get(func() (*state.Record, error) {
		cluster, err := joinedCluster(ctx, r)
		if err != nil {
			return nil, err
		}
		var rec *state.Record
		err = onceTokensAreKnown(ctx, func(ctx context.Context) error {
			rec, err = workflow.ReadRecord(ctx, cluster.Client)
			return err
		})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil, finding.Preflightf("%w", err).
				WithHint("run `ccmadm init phase record` on a control plane to publish the settings; a cluster of plain kubeadm needs `ccmadm adopt` first")
		}
		if apierrors.IsUnauthorized(err) {
			return nil, finding.Preflightf("read ConfigMap/kube-system/%s: the API server refuses the token", v1alpha1.RecordName).
				WithHint(newToken)
		}
		return rec, err
	})
}

// refuseTakenName finds a second machine with one name before it takes the first one's place in the cluster.
// kubeadm looks only for ready nodes, and without a CNI plugin none is.
// Bootstrap tokens may read Nodes for exactly this check (ClusterRole kubeadm:get-nodes).
func refuseTakenName(ctx context.Context, r *workflow.Run, client kubernetes.Interface) error {
	joined, err := workflow.HasJoined(ctx, r.Host)
	if err != nil || joined {
		return err
	}
	name, err := workflow.NodeName(r.Host)
	if err != nil {
		return err
	}
	var node *corev1.Node
	err = onceTokensAreKnown(ctx, func(ctx context.Context) error {
		node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsUnauthorized(err) {
		return finding.Preflightf("look for Node/%s: the API server refuses the token", name).WithHint(newToken)
	}
	if err != nil {
		return fmt.Errorf("look for Node/%s: %w", name, err)
	}
	other := node.Status.NodeInfo.MachineID
	var alive bool
	err = onceTokensAreKnown(ctx, func(ctx context.Context) error {
		alive, err = Heartbeats(ctx, client, node, r.Machine.Now())
		return err
	})
	if err != nil {
		return err
	}
	begun, err := r.Machine.Exists(machine.KubeletConf) // then it is this machine's own kubelet that speaks
	if err != nil {
		return err
	}
	if workflow.Ignored(r, "NodeName") || other == r.Machine.ID() && (!alive || begun) {
		r.Sayf("Node/%s is there already: this machine takes it over", name)
		return nil
	}
	return finding.Preflightf("join as %q: NodeName: the cluster has a node of that name, machine %s", name, other).
		WithHint("give this machine another host name, or --node-name; if the other machine is gone, `kubectl delete node %s` or --ignore-preflight-errors=NodeName", name)
}

const newToken = "on a control plane: kubeadm token create"

// onceTokensAreKnown asks again while there is no answer, since an API server may be restarting, and while it is Unauthorized: one that
// has just started, as that of another control plane which joins, knows no bootstrap token yet, and a load balancer may lead to it
// already. That there is such a token is known from discovery.
func onceTokensAreKnown(ctx context.Context, ask func(context.Context) error) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, tokenPause, workflow.RecordPatience, true, func(ctx context.Context) (bool, error) {
		last := journal.Ask(ctx, ask)
		if last == nil || err == nil || ctx.Err() == nil { // the end of our patience is no answer
			err = last
		}
		return !apierrors.IsUnauthorized(last), nil
	}) // it ends with the last answer
	return cmp.Or(err, ctx.Err())
}

// tokenPause is between two questions.
const tokenPause = 500 * time.Millisecond

// A kubelet renews its Lease every 10 s, and kube-controller-manager gives it up after 40 s without.
const leasePatience = 40 * time.Second

// Heartbeats tells whether a kubelet speaks for the Node: a clone has the machine ID of its original, and a Node that is
// not Ready may only lack a CNI plugin. Where the Lease may not be read, what the kubelet posts counts, every 5 minutes.
func Heartbeats(ctx context.Context, client kubernetes.Interface, node *corev1.Node, now time.Time) (bool, error) {
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name, metav1.GetOptions{})
	switch {
	case err == nil && lease.Spec.RenewTime != nil:
		return now.Sub(lease.Spec.RenewTime.Time) < leasePatience, nil
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return false, fmt.Errorf("look at the heartbeat of Node/%s: %w", node.Name, err)
	case apierrors.IsNotFound(err):
		return false, nil
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue || c.Status == corev1.ConditionFalse && now.Sub(c.LastHeartbeatTime.Time) < 6*time.Minute, nil
		}
	}
	return false, nil
}

// refuseOtherCluster finds a machine that is a member of another cluster than the one that it is told to join.
func refuseOtherCluster(env *workflow.Env, cluster *kubeadm.Cluster) error {
	there, err := env.Machine.Exists(machine.KubeletConf)
	if err != nil || !there || len(cluster.CA) == 0 {
		return err
	}
	config, err := workflow.RESTConfig(env, machine.KubeletConf)
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
