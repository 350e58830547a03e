package inpod

import "context"

// renew renews the Lease until ctx ends.
func (r *run) renew(ctx context.Context) { _ = r.runLease().Renew(ctx, nil) }
