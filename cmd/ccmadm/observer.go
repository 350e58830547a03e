package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// observer is what commands have in common that look at a cluster: kubectl's flags for the connection.
type observer struct {
	flags     *genericclioptions.ConfigFlags
	verbosity int
	output    output.Format
}

// statusTimeout bounds one look at a cluster.
const statusTimeout = 30 * time.Second

func (o *observer) declareKubeconfig(cmd *cobra.Command) {
	o.flags = genericclioptions.NewConfigFlags(false)
	o.flags.CacheDir, o.flags.Namespace, o.flags.DisableCompression = nil, nil, nil // nothing is cached, and all is in kube-system
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags.AddFlags(own)
	own.Lookup("kubeconfig").Usage = "kubeconfig file (default: those of KUBECONFIG, /etc/kubernetes/admin.conf, ~/.kube/config)"
	cmd.Flags().AddFlagSet(own)
	cmd.Flags().IntVarP(
		&o.verbosity,
		"v",
		"v",
		0,
		"log level; 6 shows each request to the API server, 8 its content as well",
	)
	load := func() (api.Config, error) { return o.flags.ToRawKubeConfigLoader().RawConfig() }
	for name, names := range map[string]cobra.CompletionFunc{
		"context": completion.Contexts(load), "cluster": completion.Clusters(load), "user": completion.Users(load),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, names) // they are kubectl's, declared above
	}
}

// connect is config for a completion, which says nothing.
func (o *observer) connect() (*rest.Config, error) {
	return o.config(workflow.Streams{Err: io.Discard, Getenv: os.Getenv})
}

func (o *observer) client(s workflow.Streams) (kubernetes.Interface, error) {
	config, err := o.config(s)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &finding.Error{Code: finding.ExitUsage, Err: fmt.Errorf("connect to the cluster: %w", err)}
	}
	return client, nil
}

// locate finds the kubeconfig, and turns the log on.
func (o *observer) locate(s workflow.Streams) error {
	if err := o.log(s); err != nil {
		return err
	}
	if err := o.findKubeconfig(s.Getenv); err != nil {
		return &finding.Error{
			Code: finding.ExitUsage,
			Err:  fmt.Errorf("load kubeconfig: %w", err),
			Hint: "--kubeconfig names one, /etc/kubernetes/admin.conf on a control plane; `ccmadm doctor --host` needs none",
		}
	}
	return nil
}

// config is how to reach the cluster.
func (o *observer) config(s workflow.Streams) (*rest.Config, error) {
	if err := o.locate(s); err != nil {
		return nil, err
	}
	if err := o.namesCluster(s.Getenv); err != nil {
		return nil, err
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, finding.Usagef("load kubeconfig: %w", err).WithHint("--kubeconfig names one")
	}
	config.QPS = -1 // as in workflow.RESTConfig
	return config, nil
}

// network looks at what the cluster's load balancers and routes are.
func (o *observer) network(ctx context.Context, s workflow.Streams) (*network.Snapshot, error) {
	return readNetwork(ctx, o, s, network.Read)
}

// readNetwork reads a part of the network in the time that a command has for it.
func readNetwork[T any](
	ctx context.Context, o *observer, s workflow.Streams, read func(context.Context, client.Reader) (*T, error),
) (*T, error) {
	config, err := o.config(s)
	if err != nil {
		return nil, err
	}
	reader, err := network.NewReader(config)
	if err != nil {
		return nil, asked(err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	part, err := read(ctx, reader)
	return part, asked(err)
}

// look is what a command does that shows the network: what it says of it is up to show.
func (o *observer) look(s workflow.Streams, show func(*network.Snapshot) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := o.output.Check(); err != nil {
			return err
		}
		snapshot, err := o.network(cmd.Context(), s)
		if err != nil {
			return err
		}
		return show(snapshot)
	}
}

// declareFormats adds the flags of a command that shows what it has read.
func (o *observer) declareFormats(cmd *cobra.Command, formats ...string) {
	o.declareKubeconfig(cmd)
	o.output.Declare(cmd, formats...)
}

// findKubeconfig looks beyond kubectl's places: at a control plane's own file. What KUBECONFIG lists has to be there in
// part at least, or the client would try localhost.
func (o *observer) findKubeconfig(env func(string) string) error {
	if *o.flags.KubeConfig != "" {
		return nil
	}
	if list := env(clientcmd.RecommendedConfigPathEnvVar); list != "" {
		var errs []error
		for _, path := range filepath.SplitList(list) {
			_, err := os.Stat(path)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	path := workflow.FindKubeconfig("", env)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && *o.flags.APIServer != "" {
		return nil // all that is needed may be in flags
	}
	*o.flags.KubeConfig = path
	return nil
}

// namesCluster refuses files of which none says where a cluster is: client-go would ask http://localhost:8080.
func (o *observer) namesCluster(env func(string) string) error {
	if *o.flags.APIServer != "" || *o.flags.ClusterName != "" {
		return nil
	}
	config, err := o.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil { // it names the file
		return finding.Usagef("load kubeconfig: %w", err).WithHint("--kubeconfig names another one")
	}
	if _, err := rest.InClusterConfig(); err == nil && len(config.Clusters) == 0 {
		return nil // in a pod its ServiceAccount is meant
	}
	config.CurrentContext = cmp.Or(*o.flags.Context, config.CurrentContext)
	if _, err := identity.ServerOf(&config); err != nil {
		from := cmp.Or(*o.flags.KubeConfig, env(clientcmd.RecommendedConfigPathEnvVar))
		return finding.Usagef("load kubeconfig %s: %w", from, err).
			WithHint("--kubeconfig names another one, /etc/kubernetes/admin.conf on a control plane; --context a context of it")
	}
	return nil
}

// log turns client-go's log on, which main has turned off.
func (o *observer) log(s workflow.Streams) error {
	if o.verbosity <= 0 {
		return nil
	}
	var level klog.Level
	if err := level.Set(strconv.Itoa(o.verbosity)); err != nil {
		return fmt.Errorf("set the log level: %w", err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(s.Err)
	return nil
}
