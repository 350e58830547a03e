package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider"
	"github.com/ccmadm/ccmadm/provider/serving"
)

// approval is what the command line says of serving certificates.
type approval struct {
	on            bool
	ranges, names []string
}

func (a *approval) declare(flags *pflag.FlagSet) {
	flags.BoolVar(&a.on, "approve-serving-certificates", false,
		"Approve the serving certificates that kubelets ask for, if names and addresses are those of their Node.")
	a.declareRanges(flags)
}

func (a *approval) declareRanges(flags *pflag.FlagSet) {
	flags.StringSliceVar(&a.ranges, "serving-certificate-ranges", nil,
		"CIDRs in which an address is accepted that only the kubelet of its Node reports.")
	flags.StringSliceVar(&a.names, "serving-certificate-names", nil,
		"DNS names, or *.DOMAIN, that a Node may have without a proof. Names without a dot need none.")
}

func (a *approval) parse() ([]netip.Prefix, serving.Names, error) {
	ranges, err := serving.ParseRanges(a.ranges)
	if err != nil {
		return nil, nil, fmt.Errorf("--serving-certificate-ranges: %w", err)
	}
	names, err := serving.ParseNames(a.names)
	if err != nil {
		return nil, nil, fmt.Errorf("--serving-certificate-names: %w", err)
	}
	return ranges, names, nil
}

// standalone is an approver beside the cloud-controller-manager of a vendor. Several of them come to the same, so that none
// has to lead.
type standalone struct {
	kubeconfig string
	address    string
	settle     time.Duration
	approval   approval
}

func newApprover(version string) *cobra.Command {
	var s standalone
	cmd := &cobra.Command{
		Use:   "approve-serving-certificates",
		Short: "Approve serving certificates of kubelets beside another cloud-controller-manager",
		Long: `Approves the serving certificates that kubelets with serverTLSBootstrap request, if the name is the Node's and the
addresses are those that a cloud-controller-manager of any vendor has written to the Node, within the configured ranges.
It relies on the admission policy that ccmadm installs, which keeps kubelets from writing them: without the policy or
without ranges, nothing is approved.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			klog.InfoS("Starting "+cmd.Name(), "version", version)
			return s.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the credentials (default: those of the pod)")
	flags.StringVar(&s.address, "bind-address", "127.0.0.1:10269", "address of /healthz and /metrics, over HTTP")
	flags.DurationVar(&s.settle, "settle", 6*time.Minute, "longer than the manager's --node-status-update-frequency: how long after "+
		"its initialization a Node may still have addresses that its kubelet wrote")
	s.approval.declareRanges(flags)
	plain := &cobra.Command{} // the usage of the command above is about that alone
	cmd.SetUsageFunc(plain.UsageFunc())
	cmd.SetHelpFunc(plain.HelpFunc())
	return cmd
}

// run approves until ctx is done.
func (s *standalone) run(ctx context.Context) error {
	ranges, names, err := s.approval.parse()
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	// Four requests at a time are judged, which the API server bears. With client-go's five a second, some kubelets that ask
	// for what they may not have would hold up the others.
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	endpoint, err := provider.EndpointOf(config)
	if err != nil {
		return err
	}
	presented, err := provider.APIServerNames(config)
	if err != nil {
		return err
	}
	nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	policy := &serving.Policy{Client: client, Settle: s.settle, Now: time.Now}
	if err := policy.Follow(nodes); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	approver, err := serving.New(serving.Settings{
		Client: client, Nodes: nodes, Prover: policy, Ranges: ranges, Names: names, Endpoint: endpoint, APIServerNames: presented,
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "ccmadm-serving-certificates"}),
	})
	if err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	go nodes.RunWithContext(ctx)
	approver.Run(ctx)
	return nil
}

// serve answers probes, and who asks for metrics, on this machine.
func (s *standalone) serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Server of /healthz and /metrics has stopped")
		}
	}()
	return nil
}
