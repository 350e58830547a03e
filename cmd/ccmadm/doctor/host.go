package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/host"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// withHost looks at the cluster and at this machine. A cluster that does not answer, or that nobody has named, as on a
// worker, keeps nobody from looking at the machine.
func (d *doctor) withHost(ctx context.Context, s workflow.Streams) (*diagnosis.Snapshot, error) {
	named := *d.Flags.KubeConfig != "" || *d.Flags.APIServer != "" || s.Getenv(clientcmd.RecommendedConfigPathEnvVar) != ""
	given := *d.Flags.KubeConfig
	snapshot, err := d.cluster(ctx, s)
	*d.Flags.KubeConfig = given // what was found in its place is looked for again: --watch comes again
	if err != nil {
		tried := errors.As(err, new(notSeenError))
		if (named || d.probe.On) && !tried { // also where the caller has ended the probe
			return nil, err
		}
		snapshot = diagnosis.Unreached(err, tried)
	}
	looked, notSeen := host.Look(ctx, machine.Host(d.root))
	snapshot.Host, snapshot.NotSeen = looked, append(snapshot.NotSeen, notSeen...)
	slices.SortStableFunc(snapshot.NotSeen, func(a, b diagnosis.NotSeen) int { return strings.Compare(a.What, b.What) })
	return snapshot, nil
}
