package inpod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/manifests"
)

// masters is the group that no authorizer stops. A dry run in the pod's name and in this group is denied by the
// admission policy alone: without it the missing permission would hide whether the policy is there.
const masters = "system:masters"

// A policy takes effect with a delay, in each API server by itself. It counts when it has denied as often as there may
// be API servers, over connections of their own, which a load balancer deals out.
const (
	denials       = 5
	policyTimeout = time.Minute
)

var errNotDenied = errors.New("a dry run in the name of the pod was not denied")

// inForce waits until the admission policy denies what the pod would write.
func (r *run) inForce(ctx context.Context) error {
	config := rest.CopyConfig(r.Cluster)
	config.Impersonate = rest.ImpersonationConfig{UserName: manifests.RehearsalUser(r.name), Groups: []string{masters}}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	denied, last := 0, errNotDenied
	err = wait.PollUntilContextTimeout(ctx, often, policyTimeout, true, func(ctx context.Context) (bool, error) {
		denied++
		if last = r.probe(ctx, client); last != nil { // of several API servers one may not know the policy yet
			denied = 0
		}
		utilnet.CloseIdleConnectionsFor(transport.Transport)
		return denied >= denials, nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("wait for ValidatingAdmissionPolicy/%s to be in force: %w", r.name, last)
	}
	return err
}

// probe is nil where the policy, and nothing else, has denied a write.
func (r *run) probe(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nothing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.name, Namespace: r.name}}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := client.CoreV1().ConfigMaps(r.name).Create(ctx, nothing, dryRun)
	switch {
	case err == nil:
		return errNotDenied
	case strings.Contains(err.Error(), r.name) && strings.Contains(err.Error(), manifests.RehearsalDenial):
		return nil
	}
	return err
}
