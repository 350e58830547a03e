// Package lbmove is `ccmadm lb move`: it lets one LoadBalancer Service take over the address of another one.
//
// Start at [NewCommand]. plan.go makes a [Plan], and checks.go finds what is against it: the allocator of the cloud-controller-manager
// is asked as well. write.go sets the annotations of both Services and waits, show.go prints. The cloud-controller-manager does
// the move.
//
// Reads: what package externalips reads, and the EndpointSlices of the new Service. Writes: annotations ccmadm.dev/move-to and
// ccmadm.dev/addresses of the two Services, and with --release-old the type of the old one.
// Running it twice: goes on where the first run stopped; a move that is done is said to be done.
// It will not: write to one of the Services before the API server has accepted the changes of both in a dry run.
package lbmove

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/externalips"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/retry"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

const (
	// each is how long one request may take, and readTime one look at the cluster, which is tried again for readPatience.
	each, readTime, readPatience = 10 * time.Second, 30 * time.Second, 3 * time.Second
	// attempts is how often a plan is made again, since another user has changed a Service meanwhile.
	attempts = 5
)

// move is a run of the command.
type move struct {
	dryRun, force, releaseOld bool
	timeout                   time.Duration
	output                    output.Format
	old, next                 types.NamespacedName
	streams                   workflow.Streams
	reader                    client.Reader
	client                    kubernetes.Interface
	server                    string
	// wrote says that a Service was changed already, perhaps by a plan before this one.
	wrote bool
}

// NewCommand returns the command. Exits is the end of the help, connect finds the cluster, and names completes the arguments.
func NewCommand(s workflow.Streams, exits string, connect func(workflow.Streams) (*rest.Config, error), names cobra.CompletionFunc) *cobra.Command {
	m := &move{streams: s}
	cmd := &cobra.Command{
		Use:   "move OLD NEW",
		Short: "Move the address of a LoadBalancer Service to another one, without a gap",
		Long: `Lets Service NEW take over the addresses of Service OLD, for example while an ingress controller is replaced by another one,
or by a Gateway. Both are NAMESPACE/NAME. The command sets annotation ` + v1alpha1.MoveToAnnotation + ` on OLD and
` + v1alpha1.AddressesAnnotation + ` on NEW, and waits until the cloud-controller-manager has moved the addresses. Agents announce them all
the time. OLD gets another address of its pool, if one is free. "ccmadm lb move NEW OLD" moves them back.

Nothing is changed if a check fails. --force skips the checks that are marked so: NEW has no ready endpoint, lacks ports of OLD,
requests another address, or accepts more clients than OLD (loadBalancerSourceRanges), or OLD or NEW shares its address with a third
Service.

It needs the permission to change both Services: a user of one namespace cannot take an address from another one.` + exits,
		Example: "  ccmadm lb move ingress-nginx/ingress-nginx-controller gateway/envoy --dry-run\n" +
			"  ccmadm lb move ingress-nginx/ingress-nginx-controller gateway/envoy\n" +
			"  ccmadm lb move gateway/envoy ingress-nginx/ingress-nginx-controller",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.output.Check(); err != nil {
				return err
			}
			if err := m.parse(cmd, args); err != nil {
				return err
			}
			if err := m.connect(connect); err != nil {
				return err
			}
			return m.run(cmd.Context())
		},
		ValidArgsFunction: names,
	}
	m.output.Declare(cmd, output.Text, output.JSON, output.YAML)
	flags := cmd.Flags()
	flags.BoolVar(&m.dryRun, "dry-run", false, "show what would change, and change nothing")
	flags.BoolVar(&m.force, "force", false, "move the address although a check failed that is marked so")
	flags.BoolVar(&m.releaseOld, "release-old", false, "then change OLD to type ClusterIP, so that it takes no other address")
	flags.DurationVar(&m.timeout, "timeout", time.Minute, "how long to wait for the cloud-controller-manager")
	return cmd
}

// parse reads the arguments.
func (m *move) parse(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return finding.Usagef("%s: want two Services, got %s", cmd.CommandPath(), finding.Count(len(args), "argument")).
			WithHint("%s shop/old shop/new; ccmadm lb list shows them", cmd.CommandPath())
	}
	names := [2]types.NamespacedName{}
	for i, text := range args {
		namespace, name, both := strings.Cut(text, "/")
		if !both {
			namespace, name = "default", text
		}
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return finding.Usagef("read Service %q: it has not the form NAMESPACE/NAME", text).WithHint("ccmadm lb list shows them")
		}
		names[i] = types.NamespacedName{Namespace: namespace, Name: name}
	}
	m.old, m.next = names[0], names[1]
	if m.old == m.next {
		return finding.Usagef("move the address of Service/%s: both arguments are the same Service", m.old)
	}
	return nil
}

func (m *move) connect(connect func(workflow.Streams) (*rest.Config, error)) error {
	config, err := connect(m.streams)
	if err != nil {
		return err
	}
	m.server = config.Host
	if u, err := url.Parse(config.Host); err == nil && u.Host != "" {
		m.server = u.Hostname()
	}
	if m.reader, err = network.NewReader(config); err != nil {
		return err
	}
	if m.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

// run makes a plan, and carries it out. A Service that another user has changed meanwhile needs another plan.
func (m *move) run(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		plan, err := m.plan(ctx)
		if err != nil {
			return err
		}
		if err := plan.refused(m.force, m.wrote); err != nil {
			return m.shown(plan, err)
		}
		if m.releaseOld && plan.State != Moved {
			plan.Notes = append(plan.Notes, "Service/"+plan.Old+" becomes type ClusterIP after the move")
		}
		if m.dryRun || plan.State == Moved {
			return m.shown(plan, m.finish(ctx, plan))
		}
		again, err := m.write(ctx, plan)
		if again && attempt < attempts {
			continue
		}
		if err != nil {
			return err
		}
		return m.follow(ctx, plan)
	}
}

// plan looks at the cluster. Requests are repeated that the API server may answer otherwise in a moment.
func (m *move) plan(ctx context.Context) (*Plan, error) {
	var cluster *externalips.Cluster
	var slices discoveryv1.EndpointSliceList
	err := retry.Do(ctx, readTime, readPatience, nil, func(ctx context.Context) error {
		var err error
		if cluster, err = externalips.Read(ctx, m.reader, m.server); err != nil {
			return err
		}
		return network.List(ctx, m.reader, "EndpointSlices", &slices, client.InNamespace(m.next.Namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: m.next.Name})
	})
	if err != nil {
		return nil, err
	}
	return newPlan(cluster, slices.Items, m.old, m.next), nil
}
