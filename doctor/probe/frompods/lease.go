package frompods

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/retry"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

const leaseObject = "Lease/" + v1alpha1.Namespace + "/" + v1alpha1.ProbeName

func (r *run) runLease() *runlease.Lease {
	return &runlease.Lease{
		Client: r.Client, Namespace: v1alpha1.Namespace, Name: v1alpha1.ProbeName, Lasts: runlease.Lasts,
		Holder: r.Holder, Labels: map[string]string{v1alpha1.ProbeLabel: r.id},
		Ask: send,
		Waiting: func(holder string) {
			r.tell("looking whether another probe is under way, by %s", finding.Clean(holder))
		},
		Refuse: func(holder string) error {
			return finding.Refusedf("another probe is under way, by %s, which holds %s", finding.Clean(holder), leaseObject).
				WithHint("only one probe runs at a time: run the same command again when it has ended")
		},
	}
}

// hold takes the Lease, from a dead run, too.
func (r *run) hold(ctx context.Context) (err error) {
	r.lease, err = r.runLease().Take(ctx)
	return err
}

// errTaken is why a run ends that another one took for dead: its Lease was not renewed for too long.
var errTaken = errors.New("another probe has taken " + leaseObject + ", which this one could not renew")

// renew says that the run is under way until ctx ends, and closes done then. Where the Lease is another run's, lost is told.
func (r *run) renew(ctx context.Context, done chan<- struct{}, lost context.CancelCauseFunc) {
	defer close(done)
	if err := r.runLease().Renew(ctx, r.lease); err != nil {
		lost(errTaken)
	}
}

// release deletes the Lease, if it is still this run's.
func (r *run) release(ctx context.Context) error { return send(ctx, r.runLease().Release) }

// removePods deletes the pods of all runs, which there are only of dead ones where this one holds the Lease and has made none, or
// has ended. Where another run holds the Lease, it deletes those of this one only.
func (r *run) removePods(ctx context.Context, own bool) error {
	pods := r.Client.CoreV1().Pods(v1alpha1.Namespace)
	return send(ctx, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProbeLabel})
		if err != nil {
			return fmt.Errorf("list pods of probes: %w", err)
		}
		var errs []error
		for i := range list.Items {
			p := &list.Items[i]
			made := strings.HasPrefix(p.Name, v1alpha1.ProbeName+"-") // labels are copied, names are not
			if made && (!own || strings.HasSuffix(p.Name, "-"+r.id)) {
				errs = append(errs, r.deletePod(ctx, p.Name, string(p.UID)))
			}
		}
		return errors.Join(errs...)
	})
}

// send sends a request, and again while the API server may answer otherwise in a moment, for removalPatience at most.
func send(ctx context.Context, request func(context.Context) error) error {
	return retry.Do(ctx, requestTimeout, removalPatience, nil, request)
}
