package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/cloud-provider/app/config"
)

// errLostLease ends the process: another program may lead by now.
var errLostLease = errors.New("lost the lease")

// lead calls work once this process holds the Lease. When ctx is done, it gives
// the Lease back, so that the next leader need not wait until it expires.
// Controllers that are still at a request then share the fate of their context,
// and each of their writes is safe to be done twice.
func lead(ctx context.Context, c *config.CompletedConfig, leading *leaderelection.HealthzAdaptor,
	work func(context.Context) error,
) error {
	election := c.ComponentConfig.Generic.LeaderElection
	if !election.LeaderElect {
		return work(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this process: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(
		election.ResourceLock, election.ResourceNamespace, election.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		c.Kubeconfig, election.RenewDeadline.Duration)
	if err != nil {
		return fmt.Errorf("prepare Lease/%s/%s: %w", election.ResourceNamespace, election.ResourceName, err)
	}

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            election.ResourceName,
		LeaseDuration:   election.LeaseDuration.Duration,
		RenewDeadline:   election.RenewDeadline.Duration,
		RetryPeriod:     election.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		WatchDog:        leading,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				if err := work(held); err != nil {
					stop(err)
				}
			},
			OnStoppedLeading: func() {}, // Run returns, which says the same
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	leading.SetLeaderElection(elector)
	elector.Run(ctx)

	switch cause := context.Cause(ctx); {
	case cause == nil:
		return errLostLease
	case errors.Is(cause, context.Canceled):
		return nil
	default:
		return cause
	}
}
