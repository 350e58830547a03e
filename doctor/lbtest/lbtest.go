// Package lbtest asks a cluster whether its load balancers do what Kubernetes promises: a suite of checks that runs against any
// implementation of Services of type LoadBalancer, and needs no other program in the cluster.
//
// Start at [Run]; checks.go has the list of checks, each a value. One run makes a namespace with a Lease (namespace.go), server pods
// and a client pod on each Node (pods.go), and at most two Services at a time (services.go). Requests are sent by this machine and by
// the client pods, which the API server's proxy reaches (clients.go); package traffic is both ends of them.
//
// Reads: Nodes, and what it made; with Disrupt what package doctor/network reads. Writes: its namespace and what is in it, and with
// Disrupt it deletes one pod of the node agent. It removes all of it in every case but that of its own sudden end; the next run
// removes that. It will not: touch a namespace that it did not make, or take an API server that does not answer for a load balancer
// that does not work.
package lbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

// Options say what is tested, and how.
type Options struct {
	// Cluster is how the API server is reached.
	Cluster *rest.Config
	// Namespace is made, and removed at the end unless Keep is set.
	Namespace string
	Keep      bool
	// Image has ccmadm as its entrypoint, with the subcommands `lb test server` and `lb test client`.
	Image string
	// Holder says for people who runs the tests.
	Holder string
	// Outside has this machine ask, too. MaxNodes is on how many Nodes a client pod asks; 0 is on none.
	Outside  bool
	MaxNodes int
	// OutsideAddress is the address of this machine as the cluster sees it, where a router translates it.
	OutsideAddress string
	// Disrupt also runs the checks that move an address while clients ask.
	Disrupt bool
	// Only and Skip are names of checks; without Only all run.
	Only, Skip []string
	// Wait is how long one thing may take: an address, a change, the removal of a Service. Timeout is for the whole run.
	Wait, Timeout time.Duration
	// Requests is how many each client sends in a row.
	Requests int
	// Port is the port of Services; the following numbers are used, too.
	Port int32
	// Class is the loadBalancerClass of Services, Annotations are on each of them.
	Class       string
	Annotations map[string]string
	// AddressAnnotation asks for an address, ShareAnnotation shares one. Empty: those of the implementation that is recognized.
	AddressAnnotation, ShareAnnotation string
	// Progress is told what happens, line by line, for people.
	Progress func(string)
}

// Limits of options.
const (
	minRequests = 5 // fewer say nothing about affinity
	maxRequests = 500
	maxNodes    = 100
	// portsUsed is how many ports the checks take, from Options.Port on.
	portsUsed = 40
)

// Names are the checks' names, in their order.
func Names() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// List is a line for each check: its name, and what it asks.
func List(out io.Writer) {
	for _, c := range checks() {
		fmt.Fprintf(out, "%s: %s\n", c.name, c.asks)
	}
}

// Check refuses options that cannot be run. The error is one of usage.
func (o *Options) Check() error {
	for _, name := range slices.Concat(o.Only, o.Skip) {
		if !slices.Contains(Names(), name) {
			return finding.Usagef("read the names of checks: there is no %q", name).WithHint("the checks are: %s", strings.Join(Names(), ", "))
		}
	}
	switch problems := validation.IsDNS1123Label(o.Namespace); {
	case len(problems) > 0:
		return finding.Usagef("read --namespace: %q: %s", o.Namespace, problems[0])
	case o.Image == "":
		return finding.Usagef("read --image: it is empty")
	case o.Requests < minRequests || o.Requests > maxRequests:
		return finding.Usagef("read --requests: %d is no number from %d to %d", o.Requests, minRequests, maxRequests)
	case o.MaxNodes < 0 || o.MaxNodes > maxNodes:
		return finding.Usagef("read --max-nodes: %d is no number from 0 to %d", o.MaxNodes, maxNodes)
	case o.MaxNodes == 0 && !o.Outside:
		return finding.Usagef("--outside=false and --max-nodes 0 leave no client that could ask")
	case o.OutsideAddress != "" && !isIP(o.OutsideAddress):
		return finding.Usagef("read --outside-address: %q is no IP address", o.OutsideAddress)
	case o.Wait < time.Second:
		return finding.Usagef("read --wait: %s is less than a second", o.Wait)
	case o.Timeout < o.Wait:
		return finding.Usagef("read --timeout: %s is less than --wait, %s", o.Timeout, o.Wait)
	case o.Port < 1 || o.Port > 65535-portsUsed:
		return finding.Usagef("read --port: %d is no port from 1 to %d", o.Port, 65535-portsUsed)
	}
	if o.Class != "" {
		if problems := validation.IsQualifiedName(o.Class); len(problems) > 0 {
			return finding.Usagef("read --class: %q: %s", o.Class, problems[0])
		}
	}
	for key := range o.Annotations {
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return finding.Usagef("read --annotation: %q: %s", key, problems[0])
		}
	}
	return nil
}

// suite is one run.
type suite struct {
	Options
	id     string
	client kubernetes.Interface
	// network reads what package doctor/network does.
	network client.Reader
	api     *asker
	report  *Report
	// nodes are all Nodes; outside is this machine, or nil, and pods are the client pods. Servers are the names of the server pods.
	nodes   nodeList
	outside asking
	pods    []asking
	servers []string
	// clientPort is the port of client pods.
	clientPort int
	// silence is how long the Lease of another run may stay as it is, until that run is dead.
	silence time.Duration
	// servicesPatience is how long Services may keep the namespace from being deleted at the end.
	servicesPatience time.Duration
	// lease is this run's, as it was taken.
	lease *coordinationv1.Lease
	// implementation is the one that serves the Services, once one of them has an address.
	implementation *implementation
	port           int32
}

var (
	errTimeout = errors.New("the run has taken as long as --timeout allows")
	errStopped = errors.New("the run was interrupted")
)

// Run tests. The report has every check that was to run, also with an error, unless nothing was tested. An error is what kept the
// run from its end, or what was left behind; failed checks are in the report only.
func Run(ctx context.Context, o Options) (*Report, error) {
	s, err := newSuite(o)
	if err != nil {
		return nil, err
	}
	return s.run(ctx)
}

func newSuite(o Options) (*suite, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &suite{Options: o, id: rand.String(10), clientPort: clientPort, silence: runlease.Lasts, servicesPatience: servicesPatience, port: o.Port}
	s.report = &Report{Run: s.id, Namespace: o.Namespace}
	s.api = &asker{tell: s.tell, patience: apiPatience}
	// A limit of the client ends a request in its own words before the deadline: as if the API server could not be asked.
	config := rest.CopyConfig(o.Cluster)
	config.QPS = -1
	var err error
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if s.network, err = network.NewReader(config); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return s, nil
}

func (s *suite) run(ctx context.Context) (report *Report, err error) {
	s.report.Started = time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, s.Timeout, errTimeout)
	defer cancel()
	if err := s.permitted(limited); err != nil {
		return nil, stopped(limited, err)
	}
	if err := s.removeLeftovers(limited); err != nil {
		return nil, stopped(limited, err)
	}
	limited, lost := context.WithCancelCause(limited)
	defer lost(nil)
	alive, stop := context.WithCancel(limited)
	var renewal sync.WaitGroup
	defer func() {
		stop()
		renewal.Wait()
		err = s.end(ctx, err)
	}()
	if err := s.createNamespace(limited); err != nil {
		return nil, stopped(limited, err)
	}
	renewal.Go(func() { s.renew(alive, lost) })
	if err := s.prepare(limited); err != nil {
		return nil, stopped(limited, err)
	}
	err = s.all(limited)
	s.report.Seconds = seconds(time.Since(s.report.Started))
	s.report.Retries = s.api.count()
	return s.report, err
}

// end removes what was made, or says where it stays.
func (s *suite) end(ctx context.Context, err error) error {
	if s.Keep {
		s.tell("namespace %s stays; the next run removes it, or: kubectl delete namespace %s", s.Namespace, s.Namespace)
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
	defer cancel()
	left := s.remove(last)
	if left != nil && err != nil {
		s.tell("%v", left)
		return err
	}
	if left != nil {
		return left
	}
	return err
}

// prepare makes the pods.
func (s *suite) prepare(ctx context.Context) error {
	if err := s.readNodes(ctx); err != nil {
		return err
	}
	if s.Outside {
		s.outside = here{}
		if s.report.Machine = s.nodes.machine(); s.report.Machine != "" {
			s.tell("note: this machine is Node %s, so it is no client outside of the cluster", s.report.Machine)
		}
	}
	return s.createPods(ctx)
}

// all runs the checks in their order, and goes on after one that has failed.
func (s *suite) all(ctx context.Context) error {
	for _, c := range checks() {
		if len(s.Only) > 0 && !slices.Contains(s.Only, c.name) {
			continue
		}
		r := Result{Name: c.name, Asked: c.asks, Result: Skip}
		switch {
		case slices.Contains(s.Skip, c.name):
			r.Reason = "left out by --skip"
		case c.disrupts && !s.Disrupt:
			r.Reason = "--disrupt runs it"
		case ctx.Err() != nil:
			r.Reason = stopped(ctx, nil).Error()
		default:
			s.one(ctx, c, &r)
		}
		s.report.Checks = append(s.report.Checks, r)
		s.tell("%s", r.line())
	}
	if ctx.Err() != nil {
		return stopped(ctx, nil)
	}
	return nil
}

// one runs a check, and removes its Services in any case.
func (s *suite) one(ctx context.Context, c check, r *Result) {
	started := time.Now()
	p := &probe{suite: s}
	err := c.run(ctx, p)
	if removed := p.removeServices(ctx); err == nil {
		err = removed
	}
	if ctx.Err() != nil {
		err = skipf("%v", stopped(ctx, nil))
	}
	r.Seconds, r.Lost, r.Notes = seconds(time.Since(started)), p.lost, p.notes
	r.Result, r.Reason = judge(err)
}

// stopped is why the run ended: its time, or its caller. err is kept where neither is.
func stopped(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), errTimeout):
		return &finding.Error{Code: finding.ExitNotInTime, Err: errTimeout, Hint: "--timeout gives it more, --run runs some of the checks"}
	}
	if errors.Is(context.Cause(ctx), errTaken) {
		return finding.Errorf("%w", errTaken).WithHint("run the same command again")
	}
	return finding.Errorf("%w", errStopped)
}

func (s *suite) tell(format string, args ...any) {
	if s.Progress != nil {
		s.Progress(finding.Clean(fmt.Sprintf(format, args...)))
	}
}

// request is one of this run to an address.
func (s *suite) request(protocol, address string, count int) traffic.Request {
	return traffic.Request{
		Run: s.id, Protocol: protocol, Address: address, Count: count, Every: requestEvery, Timeout: requestTimeout,
	}
}

func seconds(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }
