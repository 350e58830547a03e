// Package observer is what the commands have in common that look at a cluster: the flags by which it is found, the format in which it
// is shown, the time that there is for it, and what is said of an API server that does not answer.
//
// Start at [Cluster]. network.go reads load balancers and routes; errors.go has the errors.
//
// Reads: flags, kubeconfigs, and of the cluster what the command asks for. Writes: nothing.
// Running it twice: asks again; nothing is cached.
// It will not: try http://localhost:8080, as client-go does where no cluster is named.
package observer

import (
	"cmp"
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

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Cluster is the one that a command looks at.
type Cluster struct {
	// Flags are kubectl's, for the connection.
	Flags     *genericclioptions.ConfigFlags
	verbosity int
	// Output is how the command shows what it has read, if it declares formats.
	Output output.Format
}

// Timeout bounds one look at a cluster.
const Timeout = 30 * time.Second

// DeclareKubeconfig adds the flags by which the cluster is found.
func (o *Cluster) DeclareKubeconfig(cmd *cobra.Command) {
	o.Flags = genericclioptions.NewConfigFlags(false)
	o.Flags.CacheDir, o.Flags.Namespace, o.Flags.DisableCompression = nil, nil, nil // nothing is cached, and all is in kube-system
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Flags.AddFlags(own)
	own.Lookup("kubeconfig").Usage = "kubeconfig file (default: those of KUBECONFIG, /etc/kubernetes/admin.conf, ~/.kube/config)"
	cmd.Flags().AddFlagSet(own)
	cmd.Flags().IntVarP(
		&o.verbosity,
		"v",
		"v",
		0,
		"log level; 6 shows each request to the API server, 8 its content as well",
	)
	load := func() (api.Config, error) { return o.Flags.ToRawKubeConfigLoader().RawConfig() }
	for name, names := range map[string]cobra.CompletionFunc{
		"context": completion.Contexts(load), "cluster": completion.Clusters(load), "user": completion.Users(load),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, names) // they are kubectl's, declared above
	}
}

// Connect is Config for a completion, which says nothing.
func (o *Cluster) Connect() (*rest.Config, error) {
	return o.Config(workflow.Streams{Err: io.Discard, Getenv: os.Getenv})
}

// Client asks the cluster.
func (o *Cluster) Client(s workflow.Streams) (kubernetes.Interface, error) {
	config, err := o.Config(s)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &finding.Error{Code: finding.ExitUsage, Err: fmt.Errorf("connect to the cluster: %w", err)}
	}
	return client, nil
}

// Locate finds the kubeconfig, and turns the log on.
func (o *Cluster) Locate(s workflow.Streams) error {
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

// Config is how to reach the cluster.
func (o *Cluster) Config(s workflow.Streams) (*rest.Config, error) {
	if err := o.Locate(s); err != nil {
		return nil, err
	}
	if err := o.namesCluster(s.Getenv); err != nil {
		return nil, err
	}
	config, err := o.Flags.ToRESTConfig()
	if err != nil {
		return nil, finding.Usagef("load kubeconfig: %w", err).WithHint("--kubeconfig names one")
	}
	config.QPS = -1 // as in workflow.RESTConfig
	return config, nil
}

// DeclareFormats adds the flags of a command that shows what it has read.
func (o *Cluster) DeclareFormats(cmd *cobra.Command, formats ...string) {
	o.DeclareKubeconfig(cmd)
	o.Output.Declare(cmd, formats...)
}

// findKubeconfig looks beyond kubectl's places: at a control plane's own file. What KUBECONFIG lists has to be there in
// part at least, or the client would try localhost.
func (o *Cluster) findKubeconfig(env func(string) string) error {
	if *o.Flags.KubeConfig != "" {
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
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && *o.Flags.APIServer != "" {
		return nil // all that is needed may be in flags
	}
	*o.Flags.KubeConfig = path
	return nil
}

// namesCluster refuses files of which none says where a cluster is: client-go would ask http://localhost:8080.
func (o *Cluster) namesCluster(env func(string) string) error {
	if *o.Flags.APIServer != "" || *o.Flags.ClusterName != "" {
		return nil
	}
	config, err := o.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil { // it names the file
		return finding.Usagef("load kubeconfig: %w", err).WithHint("--kubeconfig names another one")
	}
	if _, err := rest.InClusterConfig(); err == nil && len(config.Clusters) == 0 {
		return nil // in a pod its ServiceAccount is meant
	}
	config.CurrentContext = cmp.Or(*o.Flags.Context, config.CurrentContext)
	if _, err := identity.ServerOf(&config); err != nil {
		from := cmp.Or(*o.Flags.KubeConfig, env(clientcmd.RecommendedConfigPathEnvVar))
		return finding.Usagef("load kubeconfig %s: %w", from, err).
			WithHint("--kubeconfig names another one, /etc/kubernetes/admin.conf on a control plane; --context a context of it")
	}
	return nil
}

// log turns client-go's log on, which main has turned off.
func (o *Cluster) log(s workflow.Streams) error {
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

// Kubectl begins a command for the cluster that was looked at. Credentials of flags are not repeated.
func (o *Cluster) Kubectl() []string {
	words := []string{"kubectl"}
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", *o.Flags.KubeConfig},
		{"context", *o.Flags.Context},
		{"cluster", *o.Flags.ClusterName},
		{"user", *o.Flags.AuthInfoName},
		{"server", *o.Flags.APIServer},
		{"tls-server-name", *o.Flags.TLSServerName},
		{"certificate-authority", *o.Flags.CAFile},
	} {
		if flag.value != "" {
			words = append(words, "--"+flag.name+"="+flag.value)
		}
	}
	if *o.Flags.Insecure {
		words = append(words, "--insecure-skip-tls-verify")
	}
	return words
}
